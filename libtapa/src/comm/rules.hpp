/// @file
/// What options and machine say of all calls on a communicator.
#pragma once

#include <memory>

#include "comm/device_way.hpp"
#include "topology/topology.hpp"
#include "transport/waiter.hpp"
#include "world/options.hpp"

namespace tapa {

/// Never changed: TAPA_Comm_set makes others. Alike on all ranks but for `wait`.
struct Rules {
  std::shared_ptr<const Options> options;
  std::shared_ptr<const Topology> topology;
  Check check = Settings{}.check;  ///< how arguments are checked
  double timeout = 0;              ///< seconds after which one says whom a call waits for; 0: never
  Reporting report = Reporting::off;
  bool explain = false;
  bool trusts_buffers = false;  ///< the program promises that no buffer is in GPU memory
  bool is_mpis = false;         ///< MPI gets every call with nothing of it looked at: such buffers may come
  bool mpi_is_forced = false;   ///< MPI is asked for by name: it gets calls exactly as they were made
  bool fast = false;            ///< blocking calls may begin without a place in the order of calls
  bool always_memory = false;   ///< ... and shared memory is the choice for all sizes
  DeviceDecision device;        ///< which way buffers in GPU memory take
  WaitPolicy wait = WaitPolicy::spin;  ///< by rank 0's wish, but each node's own number of cores

  [[nodiscard]] const Settings& settings() const { return options->settings(); }
  [[nodiscard]] bool compares() const { return check >= Check::counts; }
  /// Whether persistent calls are MPI's: buffers may be in GPU memory, which it takes.
  [[nodiscard]] bool leaves_persistent() const { return device.way == DeviceWay::engine && device.mpi_takes; }
};

}  // namespace tapa
