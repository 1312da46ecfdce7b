#include <memory>

#include "c_interface/error.hpp"
#include "c_interface/handles.hpp"
#include "c_interface/transfer.hpp"

struct dit_transfer {
  dit_session& session;
  dit::c_interface::Transfer transfer;
};

using namespace dit::c_interface;

extern "C" {

dit_status dit_transfer_create(dit_session* session, const dit_layout* layout,
                               const dit_transfer_options* options, dit_transfer** transfer) {
  return guarded(__func__, [&] {
    dit_session& in = required(session, "session");
    const dit::UlyssesLayout& of = required(layout, "layout").layout;
    const dit_transfer_options& how = required_struct(options, "options", "dit_transfer_options");
    dit_transfer*& result = required(transfer, "transfer");
    result = new dit_transfer{in, Transfer(in.context, of, how)};
    ++in.transfers;
  });
}

dit_status dit_transfer_bytes(const dit_transfer* transfer, size_t* source_bytes, size_t* target_bytes) {
  return guarded(__func__, [&] {
    const Transfer& of = required(transfer, "transfer").transfer;
    std::size_t& source = required(source_bytes, "source_bytes");
    required(target_bytes, "target_bytes") = of.target_bytes();
    source = of.source_bytes();
  });
}

dit_status dit_transfer_start(dit_transfer* transfer, const void* source, size_t source_bytes, void* target,
                              size_t target_bytes, const dit_active_rows* active) {
  return guarded(__func__, [&] {
    Transfer& started = required(transfer, "transfer").transfer;
    require_memory("source", source, source_bytes, started.source_bytes());
    require_memory("target", target, target_bytes, started.target_bytes());
    if (active != nullptr) {
      (void)required_struct(active, "active", "dit_active_rows");
    }
    started.start(source, target, active);
  });
}

dit_status dit_transfer_test(dit_transfer* transfer, int* done) {
  return guarded(__func__, [&] {
    Transfer& tested = required(transfer, "transfer").transfer;
    required(done, "done") = tested.test() ? 1 : 0;
  });
}

dit_status dit_transfer_wait(dit_transfer* transfer) {
  return guarded(__func__, [&] { required(transfer, "transfer").transfer.wait(); });
}

dit_status dit_transfer_free(dit_transfer** transfer) {
  return guarded(__func__, [&] {
    const std::unique_ptr<dit_transfer> owner(required(transfer, "transfer"));
    *transfer = nullptr;
    if (owner != nullptr) {
      --owner->session.transfers;
      owner->transfer.wait();
    }
  });
}

}  // extern "C"
