#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "c_interface/agreement.hpp"
#include "c_interface/error.hpp"
#include "c_interface/handles.hpp"
#include "c_interface/transfer.hpp"

using namespace dit::c_interface;

namespace {

void write_shape(const dit::TensorShape& shape, std::int64_t* numbers) {
  std::ranges::copy(std::initializer_list<std::int64_t>{shape.batch, shape.rows, shape.heads, shape.head_dim},
                    numbers);
}

/// What all ranks must have said alike. A wire is one in the order in which wires were made; null is 0.
std::vector<NamedNumber> numbers_of(const dit::UlyssesLayout& layout, const dit_transfer_options& options) {
  std::vector<NamedNumber> numbers = shape_numbers(layout);
  numbers.insert(numbers.end(),
                 {{"options->kind", options.kind},
                  {"options->group", options.group},
                  {"options->groups", options.groups},
                  {"options->element_bytes", static_cast<std::int64_t>(options.element_bytes)},
                  {"options->memory_kind", options.memory_kind},
                  {"the number of options->wire", options.wire != nullptr ? options.wire->number : 0}});
  return numbers;
}

// What a rank lacks memory for no rank gets: the others would wait for it in the first exchange.
std::unique_ptr<dit_transfer> make_on_all(dit_session& in, const dit::UlyssesLayout& layout,
                                          const dit_transfer_options& options) {
  std::unique_ptr<dit_transfer> made;
  std::string words;
  try {
    made = std::make_unique<dit_transfer>(in, layout, options);
  } catch (const std::exception& error) {
    words = error.what();
    (void)in.context.agree_on_error(words);
    throw;
  }
  if (const std::string all = in.context.agree_on_error(words); !all.empty()) {
    throw dit::ExchangeError(DIT_ERROR_MEMORY, all);
  }
  return made;
}

}  // namespace

extern "C" {

dit_status dit_transfer_create(dit_session* session, const dit_layout* layout,
                               const dit_transfer_options* options, dit_transfer** transfer) {
  return guarded(__func__, [&] {
    dit_session& in = required(session, "session");
    dit_transfer_options how{};
    agree(in.context, [&] {
      const dit::UlyssesLayout& of = required(layout, "layout").layout;
      how = read_struct(options, "options", "dit_transfer_options");
      (void)required(transfer, "transfer");
      dit_transfer::check(in, of, how);
      return numbers_of(of, how);
    });
    *transfer = make_on_all(in, layout->layout, how).release();
    if (how.wire != nullptr) {
      how.wire->memory_kind = how.memory_kind;
    }
  });
}

dit_status dit_transfer_bytes(const dit_transfer* transfer, size_t* source_bytes, size_t* target_bytes) {
  return guarded(__func__, [&] {
    const dit_transfer& of = required(transfer, "transfer");
    std::size_t& source = required(source_bytes, "source_bytes");
    required(target_bytes, "target_bytes") =
        static_cast<std::size_t>(of.way().target_shape().elements()) * of.element_bytes();
    source = static_cast<std::size_t>(of.way().source_shape().elements()) * of.element_bytes();
  });
}

dit_status dit_transfer_shapes(const dit_transfer* transfer, int64_t* source, int64_t* target) {
  return guarded(__func__, [&] {
    const dit::TensorTransfer& way = required(transfer, "transfer").way();
    (void)required(source, "source");
    write_shape(way.target_shape(), &required(target, "target"));
    write_shape(way.source_shape(), source);
  });
}

dit_status dit_transfer_workspace_bytes(const dit_transfer* transfer, size_t* bytes) {
  return guarded(__func__, [&] {
    const dit_transfer& of = required(transfer, "transfer");
    required(bytes, "bytes") = of.workspace_bytes();
  });
}

dit_status dit_transfer_use_workspace(dit_transfer* transfer, void* workspace, size_t bytes) {
  return guarded(__func__, [&] {
    dit_transfer& of = required(transfer, "transfer");
    std::byte* const memory =
        bytes > 0 ? &required(static_cast<std::byte*>(workspace), "workspace") : nullptr;
    of.use_workspace({memory, bytes});
  });
}

dit_status dit_transfer_start(dit_transfer* transfer, const dit_transfer_call* call) {
  return guarded(__func__, [&] {
    dit_transfer& started = required(transfer, "transfer");
    started.start(read_struct(call, "call", "dit_transfer_call"));
  });
}

dit_status dit_transfer_bind(dit_transfer* transfer, dit_registration* registration,
                             const dit_tensor* target) {
  return guarded(__func__, [&] {
    dit_transfer& bound = required(transfer, "transfer");
    bound.bind(registration, target);
  });
}

dit_status dit_transfer_start_together(dit_transfer* const* transfers, const dit_transfer_call* calls,
                                       size_t count) {
  return guarded(__func__, [&] {
    if (count == 0) {
      return;
    }
    (void)required(transfers, "transfers");
    (void)required(calls, "calls");
    std::vector<dit_transfer_call> all;
    for (std::size_t i = 0; i < count; ++i) {
      (void)required(transfers[i], ("transfers[" + std::to_string(i) + "]").c_str());
      // All are of the caller's size.
      const auto* const call = reinterpret_cast<const dit_transfer_call*>(
          reinterpret_cast<const std::byte*>(calls) + i * calls->struct_size);
      all.push_back(read_struct(call, "calls", "dit_transfer_call"));
    }
    dit_transfer::start_together({transfers, count}, all);
  });
}

dit_status dit_transfer_test(dit_transfer* transfer, int* done) {
  return guarded(__func__, [&] {
    dit_transfer& tested = required(transfer, "transfer");
    int& is_done = required(done, "done");  // before anything is finished
    is_done = tested.test() ? 1 : 0;
  });
}

dit_status dit_transfer_wait_stream(dit_transfer* transfer, void* stream) {
  return guarded(__func__, [&] { required(transfer, "transfer").wait_stream(stream); });
}

dit_status dit_transfer_guarded(const dit_transfer* transfer, uint64_t* exchanges) {
  return guarded(__func__, [&] {
    const dit_transfer& of = required(transfer, "transfer");
    required(exchanges, "exchanges") = of.guarded();
  });
}

dit_status dit_transfer_wait(dit_transfer* transfer) {
  return guarded(__func__, [&] { required(transfer, "transfer").wait(); });
}

dit_status dit_transfer_cancel(dit_transfer* transfer, void (*release)(void* user), void* user) {
  return guarded(__func__, [&] {
    dit_transfer& given_up = required(transfer, "transfer");
    struct OfCaller {
      void (*release)(void* user) = nullptr;
      void* user = nullptr;
      ~OfCaller() {
        if (release != nullptr) {
          release(user);
        }
      }
    };
    // First, as nothing has been done where there is no memory for it.
    auto owner = std::make_shared<OfCaller>();
    owner->release = release;
    owner->user = user;
    given_up.cancel(std::move(owner));
  });
}

dit_status dit_transfer_free(dit_transfer** transfer) {
  return guarded(__func__, [&] {
    const std::unique_ptr<dit_transfer> owner(required(transfer, "transfer"));
    *transfer = nullptr;
    if (owner != nullptr) {
      owner->wait_for_all();
    }
  });
}

}  // extern "C"
