/// @file
/// A wire of pipes: a kernel copies between device memory and slots, a thread of the host moves the slots as
/// messages. Slots lie in memory of the host, or in device memory where messages may.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device/agreement.hpp"
#include "device/cuda_objects.hpp"
#include "device/lane_kernels.hpp"
#include "device/proxy.hpp"
#include "device/wire.hpp"

namespace tapa::device {

/// How many channels a pair of ranks has, and how long slots are. Alike on all ranks.
struct PipeShape {
  int channels = 1;
  std::size_t chunk = 0;
};
/// `most`: channels of two ranks; more ranks have fewer.
[[nodiscard]] PipeShape pipe_shape(int ranks, int most);

/// What carries the messages, and in words: a channel's go by messenger number channel modulo messengers,
/// each of which has a thread of its own.
struct PipeMessengers {
  std::string name;
  std::vector<std::unique_ptr<Messenger>> each;
};

class PipeWire final : public Wire {
 public:
  /// On the current device. `peers`: ranks of other nodes. `state`: whether the rank has failed, in device
  /// memory. `timeout`: nanoseconds. Throws DeviceError.
  PipeWire(int ranks, const std::vector<int>& peers, PipeMessengers messengers, const PipeShape& shape,
           bool slots_on_device, LocalState* state, Word timeout);

  [[nodiscard]] std::string describe() const override;
  void exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                cudaStream_t stream) override;
  [[nodiscard]] unsigned long long missing(int rank) const override;
  [[nodiscard]] std::string failure() const override;
  [[nodiscard]] bool has_left(int rank) const override;
  void abandon() override;
  void finish(bool well) override;

  /// Ranks of other nodes at most: one launch has a thread block for each pipe.
  static constexpr std::size_t kMaxPeers = kMaxPipeJobs / 2;
  /// Throws DeviceError when there are more.
  static void check_peers(std::size_t peers);

 private:
  void add(PipeLaunch& launch, const WireMessage& message, bool sends) const;
  [[nodiscard]] int entry_of(int peer, int channel, bool sends) const;
  [[nodiscard]] std::vector<HostPipe> lay_out(const std::vector<int>& peers, std::vector<PipeEntry>& table);
  void start(PipeMessengers messengers, const std::vector<HostPipe>& pipes);
  [[nodiscard]] Word* missing_words() const { return static_cast<Word*>(missing_.get()); }

  std::string name_;
  PipeShape shape_;
  bool slots_on_device_;
  std::vector<int> first_entry_;  ///< of each rank; -1: of this node
  LastingMemory words_, missing_;
  std::optional<LastingMemory> host_slots_;
  std::optional<DeviceMemory> device_slots_;
  DeviceMemory own_, passed_, table_;
  PipeTurn turn_{};
  std::vector<std::unique_ptr<Proxy>> proxies_;  ///< last: their threads use the rest
};

}  // namespace tapa::device
