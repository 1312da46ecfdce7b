#include "transfer/transfer_memory.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "exchange/exchange.hpp"
#ifdef DIT_HAVE_CUDA
#include "transfer/device/cuda_memory.hpp"
#endif
#include "wire/pack.hpp"

namespace dit {
namespace {

class HostMemory final : public TransferMemory {
 public:
  [[nodiscard]] TransferBuffer allocate(std::size_t bytes) const override {
    return {std::make_shared<std::byte[]>(bytes), bytes};
  }
  [[nodiscard]] TransferBuffer allocate_on_host(std::size_t bytes) const override { return allocate(bytes); }
  void copy(std::span<const std::byte> from, std::byte* to, void* /*stream*/) const override {
    std::copy(from.begin(), from.end(), to);
  }
  void clear(std::span<std::byte> bytes, void* /*stream*/) const override {
    std::ranges::fill(bytes, std::byte{0});
  }
  void pack(std::span<const PeerBlock> peers, std::size_t element_bytes, const SourceTensor& tensor,
            const TransferBuffer& buffer, void* /*stream*/) const override {
    dit::pack(peers, element_bytes, tensor, buffer.span());
  }
  void unpack(std::span<const PeerBlock> peers, std::size_t element_bytes, const TransferBuffer& buffer,
              const TargetTensor& tensor, void* /*stream*/) const override {
    dit::unpack(peers, element_bytes, buffer.span(), tensor);
  }
  void unpack_rows(const std::vector<RowCopy>& copies, const TransferBuffer& buffer,
                   const TargetTensor& tensor, void* /*stream*/) const override {
    for (const RowCopy& copy : copies)
      for (std::size_t row = 0; row < copy.rows; ++row)
        std::copy_n(
            buffer.data() + copy.buffer + row * copy.buffer_stride, copy.row_bytes,
            tensor.bytes.begin() + static_cast<std::ptrdiff_t>(copy.tensor + row * copy.tensor_stride));
  }
  void fetch(const std::byte* from, std::span<std::byte> to) const override {
    std::copy_n(from, to.size(), to.begin());
  }
  [[nodiscard]] std::shared_ptr<void> make_current(int /*device*/) const override { return nullptr; }
  [[nodiscard]] int current_device() const override { return 0; }
  [[nodiscard]] bool is_capturing(void* /*stream*/) const override { return false; }
  void follow(void* /*stream*/, void* /*other*/, void* /*mark*/) const override {}
  [[nodiscard]] std::shared_ptr<void> make_mark() const override { return nullptr; }
  void wait(void* /*stream*/) const override {}
};

}  // namespace

void TransferBuffers::lie_in(std::span<std::byte> workspace, std::size_t send_bytes, std::size_t recv_bytes) {
  const std::size_t needed = workspace_bytes(send_bytes, recv_bytes);
  if (workspace.size() < needed) {
    throw std::invalid_argument("workspace has " + std::to_string(workspace.size()) +
                                " bytes: expected at least " + std::to_string(needed));
  }
  const auto part = [&](std::size_t begin, std::size_t bytes) {
    return TransferBuffer::borrowed(workspace.subspan(begin, bytes));
  };
  send = part(0, send_bytes);
  recv = part(aligned(send_bytes), recv_bytes);
}

const TransferMemory& TransferMemory::of(int memory_kind) {
  static const HostMemory host;
  if (memory_kind == DIT_MEMORY_HOST) {
    return host;
  }
#ifdef DIT_HAVE_CUDA
  if (memory_kind == DIT_MEMORY_CUDA) {
    return cuda_memory();
  }
  const char* const known = "0 (DIT_MEMORY_HOST) or 1 (DIT_MEMORY_CUDA)";
#else
  const char* const known = "0 (DIT_MEMORY_HOST)";
#endif
  throw ExchangeError(DIT_ERROR_UNSUPPORTED, "memory_kind = " + std::to_string(memory_kind) + ": expected " +
                                                 known + " in this build");
}

}  // namespace dit
