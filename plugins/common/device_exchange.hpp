/// How a plugin exchanges device memory: on streams, without waiting for them. No CUDA here, and no MPI.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "dit/exchange.h"
#include "exchange/plugin_guard.hpp"

namespace dit {

/// The end of an exchange in the stream that it was put on. In a captured stream it is passed at once: for
/// the host nothing runs.
class StreamEnd {
 public:
  StreamEnd() = default;
  virtual ~StreamEnd() = default;
  StreamEnd(const StreamEnd&) = delete;
  StreamEnd& operator=(const StreamEnd&) = delete;

  [[nodiscard]] virtual bool passed() const = 0;
  virtual void wait() const = 0;
  /// Another stream waits for it, or the same one, which need not.
  virtual void hold(void* stream) const = 0;
};

/// Ranks that exchange device memory. Not for several threads at once. Functions throw PluginFailure.
class DeviceExchange {
 public:
  DeviceExchange() = default;
  virtual ~DeviceExchange() = default;
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  /// Puts a checked call, without a selection, on its stream.
  [[nodiscard]] virtual std::unique_ptr<StreamEnd> start(const dit_exchange_call& call) = 0;
  /// Throws what has failed on the device so far.
  virtual void check() = 0;

  /// Registers this rank's memory, null and 0 bytes for none; a number that is alike on all ranks.
  /// Collective.
  [[nodiscard]] virtual int add_memory(void* memory, std::size_t bytes) = 0;
  /// Waits until nothing runs that may use registered memory. Local, before remove_memory.
  virtual void settle() = 0;
  /// Collective.
  virtual void remove_memory(int number) = 0;
  /// As of the plugin's table, for plugins with DIT_CAPABILITY_STORES.
  [[nodiscard]] virtual void* peer_memory(int number, int rank) = 0;
  virtual void begin_stores(int number, void* stream) = 0;
  [[nodiscard]] virtual std::unique_ptr<StreamEnd> end_stores(int number, void* stream) = 0;

  /// After a failure: ends what this rank's device still waits for, where it has no time limit of its own.
  virtual void stop() noexcept {}
  /// This rank starts nothing more: who waits for it is told, as far as that is possible.
  virtual void give_up(const std::string& /*why*/) noexcept {}
  /// After failures, on whatever ranks: as new, with registered memory. Collective.
  virtual void restart() {
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, "an exchange of device memory that failed cannot begin anew");
  }
  /// Before its end, where a rank has failed: the end then waits for no other rank, and keeps what others may
  /// still use. Otherwise the end is collective.
  virtual void abandon() noexcept = 0;

  /// For describe.
  [[nodiscard]] virtual std::string text() const = 0;
};

struct DeviceSettings {
  double timeout_seconds = 0;  ///< 0: none
  int device = 0;
};

}  // namespace dit
