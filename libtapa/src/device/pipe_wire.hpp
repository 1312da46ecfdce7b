/// @file
/// A wire of pipes: a kernel copies between device memory and slots, a thread of the host moves the slots as
/// messages. Slots lie in memory of the host, or in device memory where messages may.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "device/agreement.hpp"
#include "device/cuda_objects.hpp"
#include "device/pipe_table.hpp"
#include "device/proxy.hpp"
#include "device/wire.hpp"

namespace tapa::device {

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

 private:
  [[nodiscard]] PipeWords* words() const { return static_cast<PipeWords*>(words_.get()); }
  [[nodiscard]] std::byte* slots(std::size_t index) const;
  void start(const std::vector<int>& peers, PipeMessengers messengers);

  std::string name_;
  PipeShape shape_;
  LastingMemory words_;
  std::optional<LastingMemory> host_slots_;
  std::optional<DeviceMemory> device_slots_;
  std::optional<PipeTable> table_;
  std::vector<std::unique_ptr<Proxy>> proxies_;  ///< last: their threads use the rest
};

}  // namespace tapa::device
