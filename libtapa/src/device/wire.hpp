/// @file
/// What moves device memory between ranks of different nodes, or of one whose devices do not reach each
/// other: an interface.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <string>

#include "device/cuda_objects.hpp"
#include "device/device_error.hpp"
#include "device/lane_plan.hpp"
#include "device/teardown.hpp"

namespace tapa::device {

/// Device memory to send to a rank of the communicator, or to receive from it.
struct WireMessage {
  int peer;
  std::byte* memory;
  std::size_t bytes;
};

class Wire {
 public:
  /// On the current device.
  Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  virtual ~Wire() = default;

  /// What it is, in words: "nccl 2.28.9".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Puts messages on a stream, at most one in each direction for each peer; what comes after them on the
  /// stream finds them done. Records if the stream is captured. All calls of a wire are on streams that
  /// follow one another. What is sent and received must fit: both ends know the bytes. Throws DeviceError.
  virtual void exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                        cudaStream_t stream) = 0;
  /// The same beside a stream, which goes on until it waits for the slot. One start of a slot at a time.
  virtual void start(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                     cudaStream_t stream, int slot) {
    side_.follow(stream);
    exchange(sends, receives, side_.get());
    side_.mark(slot);
  }
  void wait(int slot, cudaStream_t stream) { side_.wait(slot, stream); }
  /// As WireStream's.
  void require_free_for(cudaStream_t stream) const { side_.require_free_for(stream); }
  /// Number of the exchange that a rank did not arrive at; 0: none so far. Local.
  [[nodiscard]] virtual unsigned long long missing(int rank) const = 0;
  /// What else has ended it, "" while all is well.
  [[nodiscard]] virtual std::string failure() const = 0;
  /// Whether a rank that is missing has left, instead of being late.
  [[nodiscard]] virtual bool has_left(int /*rank*/) const { return false; }
  /// This rank makes no more calls: who waits for it fails at once, where the wire can tell.
  virtual void tell_failure() {}
  /// Before restart(), with the device of this rank idle: it writes nothing any more that others' restart()
  /// makes anew.
  virtual void settle() {}
  /// After a failure: as when it was made, at the same addresses, for recorded exchanges. All ranks' devices
  /// are idle, and none goes on before all have been here. Throws DeviceError,
  /// TAPA_DEVICE_ERR_UNSUPPORTED where messages may be under way.
  virtual void restart() {
    throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "messages through " + describe() + " cannot begin anew");
  }
  /// This rank makes no more calls, its device is idle, and all is `well`, or not. As tear_down() with the
  /// ranks that the wire joins; one that cannot tell finds all well.
  [[nodiscard]] virtual TornDown part(bool well, std::chrono::nanoseconds /*limit*/) { return {well, -1}; }
  /// Others are not waited for any more: something has failed, and memory that they may use stays.
  virtual void abandon() = 0;
  /// Ends what it does beside the calls, for good: their messages are sent, and the program may end what
  /// carries them. `well`: no call has failed on this rank. Local.
  virtual void finish(bool well) = 0;

 protected:
  WireStream side_{kLaneSlots};
};

}  // namespace tapa::device
