#include <memory>
#include <utility>
#include <vector>

#include "c_interface/agreement.hpp"
#include "c_interface/error.hpp"
#include "c_interface/handles.hpp"

using namespace dit::c_interface;

namespace {

dit::ExchangeContext::Options to_options(const dit_open_options* options) {
  dit::ExchangeContext::Options result;
  if (options != nullptr) {
    const dit_open_options given = read_struct(options, "options", "dit_open_options");
    result.communicator = given.communicator;
    result.timeout_seconds = given.timeout_seconds;
    result.config = given.config == nullptr ? "" : given.config;
  }
  return result;
}

}  // namespace

extern "C" {

dit_status dit_session_open(const char* plugin, const dit_open_options* options, dit_session** session) {
  return guarded(__func__, [&] {
    (void)required(plugin, "plugin");
    dit_session*& result = required(session, "session");
    const dit::ExchangeContext::Options wanted = to_options(options);
    result = new dit_session(dit::ExchangeContext(dit::ExchangePlugin::load(plugin), wanted));
  });
}

dit_status dit_session_close(dit_session** session) {
  return guarded(__func__, [&] {
    dit_session*& handle = required(session, "session");
    if (handle == nullptr) {
      return;
    }
    require_none("session", handle->transfers, "transfers");
    require_none("session", handle->wires, "wires");
    require_none("session", handle->parts, "parts");
    require_none("session", handle->registrations, "registrations");
    const std::unique_ptr<dit_session> owner(handle);  // gone even when closing fails
    handle = nullptr;
    if (owner->whole != nullptr) {
      --owner->whole->parts;
    }
    owner->context.close();
  });
}

dit_status dit_session_ranks(const dit_session* session, int* rank, int* size) {
  return guarded(__func__, [&] {
    const dit::ExchangeContext& context = required(session, "session").context;
    int& own = required(rank, "rank");
    required(size, "size") = context.size();
    own = context.rank();
  });
}

dit_status dit_session_level(const dit_session* session, const char* name, int* level) {
  return guarded(__func__, [&] {
    const dit::ExchangeContext& context = required(session, "session").context;
    const char& first = required(name, "name");
    int& result = required(level, "level");
    result = first == '\0' ? context.slow_level() : context.level_named(name);
  });
}

dit_status dit_session_status(dit_session* session) {
  return guarded(__func__, [&] { required(session, "session").context.require_good(); });
}

dit_status dit_session_totals(const dit_session* session, dit_exchange_totals* totals) {
  return guarded(__func__, [&] {
    const dit::ExchangeContext& context = required(session, "session").context;
    write_struct(context.totals(), totals, "totals", "dit_exchange_totals");
  });
}

dit_status dit_session_split(dit_session* session, int colour, int key, dit_session** part) {
  return guarded(__func__, [&] {
    dit_session& whole = required(session, "session");
    agree(whole.context, [&] {
      (void)required(part, "part");
      return std::vector<NamedNumber>{};
    });
    dit_session*& result = *part;
    const std::unique_ptr<dit::ExchangeContext> context = whole.context.split(colour, key);
    if (context == nullptr) {
      result = nullptr;
      return;
    }
    result = new dit_session(std::move(*context));
    result->whole = &whole;
    ++whole.parts;
  });
}

dit_status dit_session_register(dit_session* session, void* memory, size_t bytes, int memory_kind, int device,
                                dit_registration** registration) {
  return guarded(__func__, [&] {
    dit_session& in = required(session, "session");
    agree(in.context, [&] {
      (void)required(registration, "registration");
      return std::vector<NamedNumber>{{"memory_kind", memory_kind}};
    });
    dit_registration*& result = *registration;
    if (memory_kind != DIT_MEMORY_HOST && !in.context.moves_device_memory()) {
      throw dit::ExchangeError(DIT_ERROR_UNSUPPORTED, "memory_kind = " + std::to_string(memory_kind) +
                                                          ": expected 0 (DIT_MEMORY_HOST) with plugin " +
                                                          in.context.plugin().name());
    }
    result = new dit_registration{
        in, static_cast<std::byte*>(memory), bytes,
        in.context.register_memory(memory, bytes, static_cast<dit_memory_kind>(memory_kind), device)};
    ++in.registrations;
  });
}

dit_status dit_registration_free(dit_registration** registration) {
  return guarded(__func__, [&] {
    dit_registration*& handle = required(registration, "registration");
    if (handle == nullptr) {
      return;
    }
    require_none("registration", handle->bound, "bound targets of transfers");
    --handle->session.registrations;
    const std::unique_ptr<dit_registration> owner(std::exchange(handle, nullptr));
  });
}

dit_status dit_session_plugin(const dit_session* session, const dit_exchange_plugin** plugin,
                              dit_context** context) {
  return guarded(__func__, [&] {
    const dit::ExchangeContext& from = required(session, "session").context;
    const dit_exchange_plugin*& table = required(plugin, "plugin");
    required(context, "context") = from.handle();
    table = &from.plugin().table();
  });
}

}  // extern "C"
