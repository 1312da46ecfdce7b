/// @file
/// The pipes of a rank to ranks of other nodes, in the table that its kernels read.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "device/cuda_objects.hpp"
#include "device/lane_kernels.hpp"
#include "device/wire.hpp"

namespace tapa::device {

/// How many channels a pair of ranks has, and how long slots are. Alike on all ranks.
struct PipeShape {
  int channels = 1;
  std::size_t chunk = 0;  ///< bytes of a slot
};

class PipeTable {
 public:
  /// A pipe's place in the table, and whom it joins.
  struct Place {
    std::size_t index;
    int peer;
    int channel;
    bool sends;
  };

  /// On the current device. `pipe_at`: each pipe but for `passed`. `state`: whether the rank has failed, in
  /// device memory. `timeout`: nanoseconds. Throws DeviceError.
  PipeTable(int ranks, const std::vector<int>& peers, const PipeShape& shape, LocalState* state, Word timeout,
            const std::function<Pipe(const Place&)>& pipe_at);

  /// Puts messages on a stream, as Wire::exchange().
  void launch(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
              cudaStream_t stream) const;
  /// Counts begin anew. On the current device, with nothing under way. Throws DeviceError.
  void restart();
  /// Where it is noted that a rank did not come: memory of the host.
  [[nodiscard]] Word* missing(int rank) const { return static_cast<Word*>(missing_.get()) + rank; }
  /// Index of a rank's first pipe; the others follow. -1: it has none.
  [[nodiscard]] int first_of(int rank) const { return first_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int pipes_of_peer() const { return 2 * shape_.channels; }
  [[nodiscard]] int index_of(int peer, int channel, bool sends) const {
    return first_of(peer) + channel * 2 + (sends ? 0 : 1);
  }
  /// As Wire::missing().
  [[nodiscard]] unsigned long long missed_by(int rank) const {
    return *static_cast<const volatile Word*>(missing(rank));
  }

  /// Pipes to and from so many peers.
  [[nodiscard]] static std::size_t count(std::size_t peers, int channels) {
    return peers * static_cast<std::size_t>(channels) * 2;
  }
  /// Peers at most: one launch has a thread block for each pipe.
  static constexpr std::size_t kMaxPeers = kMaxPipeJobs / 2;
  /// Throws DeviceError when there are more.
  static void check_peers(std::size_t peers);

 private:
  void add(PipeLaunch& launch, const WireMessage& message, bool sends) const;

  PipeShape shape_;
  std::vector<int> first_;
  std::size_t pipes_;
  LastingMemory missing_;
  DeviceMemory own_, passed_, table_;
  PipeTurn turn_{};
};

}  // namespace tapa::device
