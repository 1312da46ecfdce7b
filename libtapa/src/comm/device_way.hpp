/// @file
/// Which way buffers in GPU memory take: decided for a communicator when it is set up, and, where the device
/// engine can serve it, for each call by what its ranks say of their buffers. Pure: no MPI, no driver.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "comm/options.hpp"

namespace tapa {

/// What becomes of calls on a communicator.
enum class DeviceWay : std::uint8_t {
  host,    ///< no rank uses a GPU, or none has buffers there: nothing is asked. A buffer that is there later
           ///< all the same is staged
  mpi,     ///< MPI gets all calls as they are made
  stage,   ///< each rank copies what is in GPU memory to the host and back, and tells nobody
  engine,  ///< the ranks agree before each blocking call: the device engine, or else MPI or staging
};
[[nodiscard]] std::string_view to_string(DeviceWay way);

/// What is known when a communicator is set up; alike on all its ranks.
struct DeviceFacts {
  bool in_use = false;     ///< the process of some rank uses a GPU
  bool cuda_only = false;  ///< ... and all that use one use CUDA, whose driver can copy
  bool mpi_takes = false;  ///< every rank's MPI takes device memory
  bool built = false;      ///< every rank's libtapa has the device engine
  bool one_host = false;   ///< all ranks are on one host
  int ranks = 1;
  int most_ranks = 1;  ///< that the engine serves
};

/// A way, and why it is none of the better ones.
struct DeviceDecision {
  DeviceWay way = DeviceWay::host;
  bool mpi_takes = false;  ///< whether MPI gets the calls that the engine does not
  std::string why;
};
[[nodiscard]] DeviceDecision decide_device_way(const DeviceFacts& facts, const Settings& settings);

/// What a rank says of the buffers of one call: bits that hold. Those that hold on all ranks decide.
struct CallBits {
  static constexpr std::uint64_t host = 1;        ///< all blocks are in host memory
  static constexpr std::uint64_t engine = 2;      ///< all are dense and on the engine's device
  static constexpr std::uint64_t registered = 4;  ///< no registration is wanted
  static constexpr std::uint64_t fresh = 8;       ///< no registration is out of date
};
enum class CallWay : std::uint8_t { host, engine, mpi, stage };
[[nodiscard]] CallWay decide_call(std::uint64_t agreed, bool mpi_takes);

/// How the blocks of a side lie. No block with bytes: both `host` and `device` hold.
struct SidePlace {
  bool host = true;
  bool device = true;  ///< all blocks are on one device, the same as the other side's
  bool dense = true;
};
[[nodiscard]] std::uint64_t call_bits(const SidePlace& send, const SidePlace& recv, bool overlaps);

}  // namespace tapa
