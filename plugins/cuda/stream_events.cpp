#include "cuda/stream_events.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "exchange/plugin_guard.hpp"

namespace dit {
namespace {

/// Calls that another thread's capture would forbid, but which touch nothing that is captured.
class BesideCaptures {
 public:
  BesideCaptures() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~BesideCaptures() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

StreamIdentity identity_of(cudaStream_t stream) {
  StreamIdentity identity;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require_cuda(cudaStreamGetCaptureInfo(stream, &status, &identity.capture), "cudaStreamGetCaptureInfo");
  if (status == cudaStreamCaptureStatusNone) identity.capture = 0;
  identity.stream = reinterpret_cast<unsigned long long>(stream);
#if CUDART_VERSION >= 12000
  // Not while it is captured; then it cannot be another one, as it cannot be destroyed.
  if (identity.capture == 0) require_cuda(cudaStreamGetId(stream, &identity.stream), "cudaStreamGetId");
#endif
  return identity;
}

class MarkedEnd final : public StreamEnd {
 public:
  explicit MarkedEnd(std::shared_ptr<StreamMark> mark) : mark_(std::move(mark)) {}
  [[nodiscard]] bool passed() const override { return mark_->passed(); }
  void wait() const override { mark_->wait(); }
  void hold(void* stream) const override { mark_->hold(static_cast<cudaStream_t>(stream)); }

 private:
  std::shared_ptr<StreamMark> mark_;
};

class LimitedEnd final : public StreamEnd {
 public:
  LimitedEnd(std::unique_ptr<StreamEnd> end, double seconds) : end_(std::move(end)), seconds_(seconds) {}
  [[nodiscard]] bool passed() const override { return end_->passed(); }
  void hold(void* stream) const override { end_->hold(stream); }
  // What takes long is looked at now and then, what is short all the time.
  void wait() const override {
    constexpr double kShort = 1e-3;
    const auto begun = std::chrono::steady_clock::now();
    while (!end_->passed()) {
      const double gone = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
      if (gone > seconds_)
        throw PluginFailure(DIT_ERROR_TIMEOUT,
                            "an exchange of device memory has not ended within " + std::to_string(seconds_) +
                                " s: a rank did not come, or what is before it in a stream "
                                "takes longer");
      if (gone < kShort)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  std::unique_ptr<StreamEnd> end_;
  double seconds_;
};

}  // namespace

void require_cuda(cudaError_t code, const char* function) {
  if (code == cudaSuccess) return;
  const bool absent = code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice ||
                      code == cudaErrorStubLibrary || code == cudaErrorSystemDriverMismatch;
  throw PluginFailure(
      absent ? DIT_ERROR_UNSUPPORTED : DIT_ERROR_COMMUNICATION,
      std::string(function) + " failed: " + cudaGetErrorName(code) + ": " + cudaGetErrorString(code));
}

EventPool::~EventPool() {
  const BesideCaptures beside;
  for (cudaEvent_t event : free_) (void)cudaEventDestroy(event);
}

cudaEvent_t EventPool::take() {
  const std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    cudaEvent_t event = free_.back();
    free_.pop_back();
    return event;
  }
  const CurrentCudaDevice current(device_);
  cudaEvent_t event = nullptr;
  require_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

void EventPool::give_back(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

StreamMark::StreamMark(std::shared_ptr<EventPool> pool, cudaStream_t stream, const StreamIdentity& identity)
    : pool_(std::move(pool)), identity_(identity), event_(pool_->take()) {
  const cudaError_t code = cudaEventRecord(event_, stream);
  if (code == cudaSuccess) return;
  pool_->give_back(event_);
  require_cuda(code, "cudaEventRecord");
}

StreamMark::StreamMark(std::shared_ptr<EventPool> pool, unsigned long long capture)
    : pool_(std::move(pool)), identity_{~0ULL, capture}, event_(pool_->take()) {}

StreamMark::~StreamMark() {
  pool_->give_back(event_);
}

bool StreamMark::passed() const {
  if (identity_.capture != 0) return true;
  const BesideCaptures beside;
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) return false;
  require_cuda(code, "cudaEventQuery");
  return true;
}

void StreamMark::wait() const {
  if (identity_.capture != 0) return;
  const BesideCaptures beside;
  require_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

void StreamMark::hold(cudaStream_t stream) const {
  if (identity_of(stream) == identity_) return;
  require_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
}

void StreamOrder::enter(cudaStream_t stream) {
  entered_ = identity_of(stream);
  const std::shared_ptr<StreamMark>& last = last_like(entered_);
  if (last == nullptr || last->identity() == entered_ || last->identity().capture != entered_.capture) return;
  last->hold(stream);
}

std::unique_ptr<StreamEnd> StreamOrder::leave(cudaStream_t stream) {
  std::shared_ptr<StreamMark>& last = last_like(entered_);
  last = std::make_shared<StreamMark>(pool_, stream, entered_);
  return std::make_unique<MarkedEnd>(last);
}

std::unique_ptr<StreamEnd> end_of(std::shared_ptr<StreamMark> mark) {
  return std::make_unique<MarkedEnd>(std::move(mark));
}

std::unique_ptr<StreamEnd> with_limit(std::unique_ptr<StreamEnd> end, double seconds) {
  if (seconds <= 0) return end;
  return std::make_unique<LimitedEnd>(std::move(end), seconds);
}

bool is_captured(cudaStream_t stream) {
  return identity_of(stream).capture != 0;
}

}  // namespace dit
