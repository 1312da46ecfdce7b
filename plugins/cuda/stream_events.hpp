/// CUDA streams as the exchanges of device memory need them: events at the ends of what was put on streams,
/// and one order over all streams.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "common/device_exchange.hpp"
#include "exchange/current_device.hpp"

namespace dit {

/// Throws PluginFailure (DIT_ERROR_COMMUNICATION; DIT_ERROR_UNSUPPORTED without a driver or a GPU) unless the
/// code is cudaSuccess.
void require_cuda(cudaError_t code, const char* function);

using CurrentCudaDevice = CurrentDeviceOf<require_cuda>;

/// Which stream, and which recording of it: handles of streams come again.
struct StreamIdentity {
  unsigned long long stream = 0;
  unsigned long long capture = 0;  ///< 0: it runs
  bool operator==(const StreamIdentity& other) const {
    return stream == other.stream && capture == other.capture;
  }
};

/// Events of a device, used again and again: making one takes as long as recording it.
class EventPool {
 public:
  explicit EventPool(int device) : device_(device) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  [[nodiscard]] cudaEvent_t take();
  void give_back(cudaEvent_t event);

 private:
  int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

/// A place in a stream.
class StreamMark {
 public:
  StreamMark(std::shared_ptr<EventPool> pool, cudaStream_t stream, const StreamIdentity& identity);
  /// A place that somebody else records, in a stream that is none of the caller's; of a capture, or 0.
  StreamMark(std::shared_ptr<EventPool> pool, unsigned long long capture);
  ~StreamMark();
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;

  [[nodiscard]] const StreamIdentity& identity() const { return identity_; }
  [[nodiscard]] cudaEvent_t event() const { return event_; }
  [[nodiscard]] bool passed() const;
  void wait() const;
  void hold(cudaStream_t stream) const;

 private:
  std::shared_ptr<EventPool> pool_;
  StreamIdentity identity_;
  cudaEvent_t event_;
};

/// Keeps calls that were put on different streams in the order in which they were put there. A captured
/// stream has no order with what runs: who replays it sees to that. Each keeps its own order while the other
/// goes on.
class StreamOrder {
 public:
  explicit StreamOrder(int device) : pool_(std::make_shared<EventPool>(device)) {}
  /// Before something is put on a stream.
  void enter(cudaStream_t stream);
  /// After it; its end.
  [[nodiscard]] std::unique_ptr<StreamEnd> leave(cudaStream_t stream);
  /// For the end of what was entered last, where that is not on its stream.
  [[nodiscard]] std::shared_ptr<StreamMark> mark_beside() const {
    return std::make_shared<StreamMark>(pool_, entered_.capture);
  }

 private:
  [[nodiscard]] std::shared_ptr<StreamMark>& last_like(const StreamIdentity& identity) {
    return identity.capture == 0 ? last_running_ : last_captured_;
  }

  std::shared_ptr<EventPool> pool_;
  StreamIdentity entered_;
  std::shared_ptr<StreamMark> last_running_;
  std::shared_ptr<StreamMark> last_captured_;  ///< of one capture: the next one begins anew
};

[[nodiscard]] std::unique_ptr<StreamEnd> end_of(std::shared_ptr<StreamMark> mark);

/// The same end, whose wait throws DIT_ERROR_TIMEOUT after `seconds`; 0: it waits for ever.
[[nodiscard]] std::unique_ptr<StreamEnd> with_limit(std::unique_ptr<StreamEnd> end, double seconds);

/// Whether a stream is captured.
[[nodiscard]] bool is_captured(cudaStream_t stream);

}  // namespace dit
