/// @file
/// Which way buffers in GPU memory take: on a communicator, and, where the device engine can serve it, in
/// each call, by what its ranks say of their buffers. Pure: no MPI, no driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "world/options.hpp"

namespace tapa {

/// What becomes of calls on a communicator, and of one for which the ranks agree.
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
  bool has_comm = true;    ///< MPI has a communicator for it
  int ranks = 1;
  int nodes = 1;
  int ranks_of_node = 1;  ///< of the node with the most
  int most_ranks = 1;     ///< of a node, that the engine serves
  int most_joined = 1;    ///< ranks of several nodes that it serves
};

/// A way, and why it is none of the better ones.
struct DeviceDecision {
  DeviceWay way = DeviceWay::host;
  bool mpi_takes = false;  ///< whether MPI gets the calls that the engine does not
  std::string why;
};
[[nodiscard]] DeviceDecision decide_device_way(const DeviceFacts& facts, const Settings& settings);

/// The TAPA_DEVICE_WIRE that the engine is asked for: no messages of MPI's where it takes GPU memory itself.
[[nodiscard]] int engine_wire(const DeviceDecision& decision, const Settings& settings);

/// What a rank says of the buffers of one call: bits that hold. Those that hold on all ranks decide.
struct CallBits {
  static constexpr std::uint64_t host = 1;        ///< all blocks are in host memory
  static constexpr std::uint64_t engine = 2;      ///< all are dense and on the engine's device
  static constexpr std::uint64_t registered = 4;  ///< no registration is wanted
  static constexpr std::uint64_t fresh = 8;       ///< no registration is out of date
  static constexpr std::uint64_t row = 16;        ///< blocks are alike and lie one behind the other
  static constexpr int count = 5;
};
[[nodiscard]] DeviceWay decide_call(std::uint64_t agreed, bool mpi_takes);

/// To ask all ranks of several nodes costs a message in each call. Where the first calls were all on host
/// memory that ends: who comes with GPU memory later copies it by itself.
class HostCalls {
 public:
  static constexpr int most = 20;
  /// Counts a call that went this way on all ranks, without an engine. Whether to ask no more.
  [[nodiscard]] bool count(DeviceWay way) {
    only_ = only_ && way == DeviceWay::host;
    return only_ && ++calls_ >= most;
  }

 private:
  bool only_ = true;
  int calls_ = 0;
};

/// What ranks add up by a message: how many have each bit, and how what they send differs from what is
/// expected, which nothing else finds between nodes.
struct CallTally {
  std::uint64_t ranks = 0;  ///< for each bit
  std::uint64_t sizes = 0;  ///< 0 when all counts fit (but for one in 2^64)
};
[[nodiscard]] CallTally tally_of(std::uint64_t bits, int rank, std::span<const std::size_t> send_bytes,
                                 std::span<const std::size_t> recv_bytes);
/// The bits that all ranks have, of the sum of all tallies; without `engine` where counts differ.
[[nodiscard]] std::uint64_t common_bits(const CallTally& sum, int ranks);

/// How the blocks of a side lie. No block with bytes: both `host` and `device` hold.
struct SidePlace {
  bool host = true;
  bool device = true;  ///< all blocks are on one device, the same as the other side's
  bool dense = true;
};
[[nodiscard]] std::uint64_t call_bits(const SidePlace& send, const SidePlace& recv, bool overlaps);

}  // namespace tapa
