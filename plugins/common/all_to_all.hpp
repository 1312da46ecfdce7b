/// What an exchange over MPI must be able to do; everything else the plugins share (context.hpp).
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/device_exchange.hpp"
#include "common/levels.hpp"
#include "common/mpi_ranks.hpp"
#include "dit/exchange.h"
#include "exchange/check_call.hpp"
#include "exchange/plugin_config.hpp"

namespace dit {

/// One exchange. Its memory stays until MPI has completed it.
class Transfer {
 public:
  Transfer() = default;
  virtual ~Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Whether start waits for other ranks first; it must then not be called where the program computes.
  [[nodiscard]] virtual bool start_waits() const { return false; }
  /// Starts it; throws PluginFailure.
  virtual void start(MPI_Request& request) = 0;
  /// Does all of it, blocking; throws PluginFailure.
  virtual void run() = 0;
  /// After the request has completed: puts what was received in its place.
  virtual void finish() {}
};

/// A way to exchange, bound to a communicator.
class AllToAll {
 public:
  AllToAll() = default;
  virtual ~AllToAll() = default;
  AllToAll(const AllToAll&) = delete;
  AllToAll& operator=(const AllToAll&) = delete;

  /// The first call, and collective: no rank may fail alone before it has told the others.
  [[nodiscard]] virtual Levels levels() = 0;
  /// A transfer for a checked call, whose arrays are not needed afterwards. Local.
  [[nodiscard]] virtual std::unique_ptr<Transfer> prepare(const dit_exchange_call& call,
                                                          const ContextPlace& place) = 0;
  /// For describe: how it moves bytes, in some words.
  [[nodiscard]] virtual std::string text() const = 0;
};

/// Makes what exchanges device memory, collective over ranks that outlive it; all throw when one does. Null
/// where a plugin, or this build of it, moves host memory only.
using MakeDeviceExchange = std::unique_ptr<DeviceExchange> (*)(MpiRanks& ranks, const PluginConfig& config,
                                                               const DeviceSettings& settings);

/// Looks at the values of the keys that are for the context, "progress" and "poll_us"; throws ConfigError.
void check_progress_config(const PluginConfig& config);

/// A plugin: its name, its settings, and how it exchanges.
struct AllToAllKind {
  const char* name;
  const char* description;
  /// Reads a config and looks at every value of it; throws ConfigError. The context's keys must be among the
  /// known ones.
  PluginConfig (*read)(const char* config);
  /// Of a communicator that outlives what is made. Local. Throws PluginFailure.
  std::unique_ptr<AllToAll> (*make)(MPI_Comm comm, const PluginConfig& config);
  MakeDeviceExchange make_device;  ///< null: host memory only
  std::uint64_t capabilities;      ///< DIT_CAPABILITY_...
};

}  // namespace dit
