#include "transfer/device/cuda_memory.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "exchange/exchange.hpp"
#include "transfer/device/row_kernel.hpp"
#include "wire/pack.hpp"

namespace dit {
namespace {

cudaStream_t stream_of(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

class CudaMemory final : public TransferMemory {
 public:
  [[nodiscard]] TransferBuffer allocate(std::size_t bytes) const override {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
    // Freeing waits for what still uses it.
    std::shared_ptr<std::byte[]> owner(static_cast<std::byte*>(memory),
                                       [](std::byte* freed) { (void)cudaFree(freed); });
    check_cuda(cudaMemset(memory, 0, bytes), "cudaMemset");
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return {std::move(owner), bytes};
  }

  [[nodiscard]] TransferBuffer allocate_on_host(std::size_t bytes) const override {
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc");
    std::shared_ptr<std::byte[]> owner(static_cast<std::byte*>(memory),
                                       [](std::byte* freed) { (void)cudaFreeHost(freed); });
    std::fill_n(owner.get(), bytes, std::byte{0});
    return {std::move(owner), bytes};
  }

  void copy(std::span<const std::byte> from, std::byte* to, void* stream) const override {
    check_cuda(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDeviceToDevice, stream_of(stream)),
               "cudaMemcpyAsync");
  }

  void clear(std::span<std::byte> bytes, void* stream) const override {
    check_cuda(cudaMemsetAsync(bytes.data(), 0, bytes.size(), stream_of(stream)), "cudaMemsetAsync");
  }

  void pack(std::span<const PeerBlock> peers, std::size_t element_bytes, const SourceTensor& tensor,
            const TransferBuffer& buffer, void* stream) const override {
    const std::vector<RowCopy> copies = row_copies(peers, element_bytes, tensor, buffer.size());
    check_cuda(gather_rows(copies, tensor.bytes.data(), buffer.data(), stream_of(stream)), "packing kernel");
  }

  void unpack(std::span<const PeerBlock> peers, std::size_t element_bytes, const TransferBuffer& buffer,
              const TargetTensor& tensor, void* stream) const override {
    const SourceTensor lies(tensor.bytes, tensor.shape, tensor.strides);
    unpack_rows(row_copies(peers, element_bytes, lies, buffer.size()), buffer, tensor, stream);
  }

  void unpack_rows(const std::vector<RowCopy>& copies, const TransferBuffer& buffer,
                   const TargetTensor& tensor, void* stream) const override {
    if (copies.empty()) return;
    check_cuda(scatter_rows(copies, buffer.data(), tensor.bytes.data(), stream_of(stream)),
               "unpacking kernel");
  }

  void fetch(const std::byte* from, std::span<std::byte> to) const override {
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check_cuda(cudaMemcpy(to.data(), from, to.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  }

  [[nodiscard]] std::shared_ptr<void> make_current(int device) const override {
    return current_device() == device ? nullptr : std::make_shared<CurrentCudaDevice>(device);
  }
  [[nodiscard]] int current_device() const override {
    int current = -1;
    check_cuda(cudaGetDevice(&current), "cudaGetDevice");
    return current;
  }

  [[nodiscard]] bool is_capturing(void* stream) const override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamIsCapturing(stream_of(stream), &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
  }

  void follow(void* stream, void* other, void* mark) const override {
    auto* const event = static_cast<cudaEvent_t>(mark);
    check_cuda(cudaEventRecord(event, stream_of(other)), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(stream_of(stream), event, 0), "cudaStreamWaitEvent");
  }

  [[nodiscard]] std::shared_ptr<void> make_mark() const override {
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return {event, [](cudaEvent_t made) {
              // So that no other thread's capture ends by it.
              cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
              (void)cudaThreadExchangeStreamCaptureMode(&mode);
              (void)cudaEventDestroy(made);
              (void)cudaThreadExchangeStreamCaptureMode(&mode);
            }};
  }

  void wait(void* stream) const override {
    check_cuda(cudaStreamSynchronize(stream_of(stream)), "cudaStreamSynchronize");
  }
};

}  // namespace

const TransferMemory& cuda_memory() {
  static const CudaMemory cuda;
  return cuda;
}

void check_cuda(cudaError_t code, const char* function) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();  // or a later launch that went well would look as if it had failed so
  dit_status status = DIT_ERROR_COMMUNICATION;
  if (code == cudaErrorMemoryAllocation) status = DIT_ERROR_MEMORY;
  if (code == cudaErrorInsufficientDriver || code == cudaErrorNoDevice) status = DIT_ERROR_UNSUPPORTED;
  throw ExchangeError(
      status, std::string(function) + " failed: " + cudaGetErrorName(code) + ": " + cudaGetErrorString(code));
}

}  // namespace dit
