/// The C functions of an exchange whose contexts are of one class: errors become a status and words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/device_queue.hpp"
#include "common/levels.hpp"
#include "dit/exchange.h"
#include "exchange/check_call.hpp"
#include "exchange/plugin_guard.hpp"
#include "memory/reserve.hpp"

namespace dit {

/// What a plugin says of itself.
struct PluginWords {
  const char* name;
  const char* description;
  std::uint64_t capabilities;  ///< DIT_CAPABILITY_...
  bool devices;                ///< whether it exchanges device memory
};

/// All but open, close and abort_job, which are the plugin's own. C code knows a Context as a dit_context.
template <class Context>
class PluginFunctions {
 public:
  static dit_exchange_plugin table(const PluginWords& words, decltype(dit_exchange_plugin::open) open,
                                   decltype(dit_exchange_plugin::close) close,
                                   decltype(dit_exchange_plugin::abort_job) abort_job) {
    const bool stores = (words.capabilities & DIT_CAPABILITY_STORES) != 0;
    return {sizeof(dit_exchange_plugin),
            DIT_EXCHANGE_VERSION,
            words.name,
            words.description,
            open,
            close,
            rank,
            size,
            level_count,
            level_name,
            level_of,
            slow_level,
            start,
            test,
            wait,
            split,
            totals,
            describe,
            last_error,
            abort_job,
            cancel,
            open_channel,
            words.capabilities,
            given(words.devices, register_memory),
            given(words.devices, unregister_memory),
            given(words.devices, wait_stream),
            given(stores, peer_memory),
            given(stores, begin_stores),
            given(stores, end_stores),
            given(words.devices, give_up),
            given(words.devices, restart),
            check};
  }

  template <class Body>
  static dit_status answer(const Body& body) noexcept {
    memory::keep_reserve();
    return guarded(last_words(), body);
  }
  static dit_context* handle(std::unique_ptr<Context> context) {
    return reinterpret_cast<dit_context*>(context.release());
  }
  static Context* self(dit_context* context) { return reinterpret_cast<Context*>(context); }
  static const Context* self(const dit_context* context) { return reinterpret_cast<const Context*>(context); }

 private:
  // Words belong to a thread: contexts may be used by several, and failed opens have none.
  static std::string& last_words() {
    static thread_local std::string words;
    return words;
  }
  // Functions for what a plugin cannot do are null.
  template <class Function>
  static Function* given(bool has, Function* function) {
    return has ? function : nullptr;
  }
  template <class T>
  static void require(const T* pointer, const char* name) {
    if (pointer == nullptr) throw PluginFailure(DIT_ERROR_ARGUMENT, std::string(name) + " is null");
  }
  // A call of a context: guarded, and followed by a look at what was cancelled.
  template <class Body>
  static dit_status on_context(dit_context* context, const Body& body) noexcept {
    const dit_status status = answer([&] {
      require(context, "context");
      body(*self(context));
    });
    if (context != nullptr) self(context)->release_buffers();
    return status;
  }

  static int rank(const dit_context* context) { return context == nullptr ? -1 : self(context)->rank(); }
  static int size(const dit_context* context) { return context == nullptr ? 0 : self(context)->size(); }
  static int level_count(const dit_context* context) {
    return context == nullptr ? 0 : static_cast<int>(self(context)->levels().names.size());
  }
  static const char* level_name(const dit_context* context, int level) {
    if (level < 0 || level >= level_count(context)) return nullptr;
    return self(context)->levels().names[static_cast<std::size_t>(level)].c_str();
  }
  static int level_of(const dit_context* context, int peer) {
    if (peer < 0 || peer >= size(context)) return -1;
    return self(context)->levels().of[static_cast<std::size_t>(peer)];
  }
  static int slow_level(const dit_context* context) {
    return context == nullptr ? 0 : self(context)->levels().slow;
  }

  static dit_status start(dit_context* context, const dit_exchange_call* call, dit_request** request) {
    return on_context(context, [&](Context& inner) {
      require(request, "request");
      *request = nullptr;
      require(call, "call");
      inner.start(*call, *request);
    });
  }
  static dit_status test(dit_context* context, dit_request** request, int* done) {
    return on_context(context, [&](Context& inner) {
      require(request, "request");
      require(done, "done");
      if (*request != nullptr) inner.test(*request);
      *done = *request == nullptr ? 1 : 0;
    });
  }
  static dit_status wait(dit_context* context, dit_request** request) {
    return on_context(context, [&](Context& inner) {
      require(request, "request");
      if (*request != nullptr) inner.wait(*request);
    });
  }
  static dit_status cancel(dit_context* context, dit_request** request, dit_release release, void* user) {
    return on_context(context, [&](Context& inner) {
      require(request, "request");
      if (*request != nullptr)
        inner.cancel(*request, release, user);
      else if (release != nullptr)
        release(user);
    });
  }
  static dit_status wait_stream(dit_context* context, dit_request* request, void* stream) {
    return on_context(context, [&](Context& inner) {
      if (request != nullptr) inner.wait_stream(request, stream);
    });
  }

  static dit_status register_memory(dit_context* context, void* pointer, std::size_t bytes, int memory_kind,
                                    int device, dit_memory** memory) {
    return on_context(context, [&](Context& inner) {
      require(memory, "memory");
      *memory = nullptr;
      *memory = inner.register_memory(pointer, bytes, memory_kind, device);
    });
  }
  static dit_status unregister_memory(dit_context* context, dit_memory** memory) {
    return on_context(context, [&](Context& inner) {
      require(memory, "memory");
      if (*memory == nullptr) return;
      const std::unique_ptr<dit_memory> owner(std::exchange(*memory, nullptr));
      inner.devices().remove_memory(*owner);
    });
  }
  static dit_status peer_memory(dit_context* context, const dit_memory* memory, int rank, void** begin) {
    return on_context(context, [&](Context& inner) {
      require(memory, "memory");
      require(begin, "begin");
      *begin = inner.devices().peer_memory(*memory, rank);
    });
  }
  static dit_status begin_stores(dit_context* context, const dit_memory* memory, void* stream) {
    return on_context(context, [&](Context& inner) {
      require(memory, "memory");
      inner.devices().begin_stores(*memory, stream);
    });
  }
  static dit_status end_stores(dit_context* context, const dit_memory* memory, void* stream,
                               dit_request** request) {
    return on_context(context, [&](Context& inner) {
      require(memory, "memory");
      require(request, "request");
      *request = nullptr;
      *request = inner.devices().end_stores(*memory, stream);
    });
  }

  static dit_status give_up(dit_context* context, const char* why) {
    return on_context(context, [&](Context& inner) {
      require(why, "why");
      inner.devices().give_up(why);
    });
  }
  static dit_status restart(dit_context* context) {
    return on_context(context, [](Context& inner) { inner.devices().restart(); });
  }
  static dit_status check(dit_context* context) {
    return on_context(context, [](Context& inner) { inner.check(); });
  }

  static dit_status open_channel(dit_context* context, int* channel) {
    return on_context(context, [&](Context& inner) {
      require(channel, "channel");
      *channel = inner.open_channel();
    });
  }
  static dit_status split(dit_context* context, int colour, int key, dit_context** result) {
    return answer([&] {
      require(context, "context");
      require(result, "result");
      *result = nullptr;
      *result = handle(self(context)->split(colour, key));
    });
  }
  static dit_status totals(const dit_context* context, dit_exchange_totals* totals) {
    return answer([&] {
      require(context, "context");
      require_argument(check_totals(totals));
      self(context)->totals(*totals);
    });
  }
  static std::size_t describe(const dit_context* context, char* text, std::size_t bytes) {
    if (context == nullptr) return 0;
    return copy_text(self(context)->describe(), text, bytes);
  }
  static const char* last_error(const dit_context*) { return last_words().c_str(); }
};

}  // namespace dit
