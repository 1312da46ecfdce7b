/// Where a transfer's buffers lie, and how tensors get into and out of them: the one place that touches the
/// bytes of tensors that travel as they are. Host memory here, CUDA's in device/.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dit/exchange.h"
#include "layout/layout.hpp"
#include "wire/row_copy.hpp"

namespace dit {

/// A transfer's buffer. Copies share the memory, which lives as long as one of them: what a request still
/// uses can be kept although its transfer is gone.
class TransferBuffer {
 public:
  TransferBuffer() = default;
  TransferBuffer(std::shared_ptr<std::byte[]> memory, std::size_t bytes)
      : memory_(std::move(memory)), bytes_(bytes) {}
  /// Memory of somebody else's, who keeps it.
  [[nodiscard]] static TransferBuffer borrowed(std::span<std::byte> memory) {
    return {{std::shared_ptr<void>(), memory.data()}, memory.size()};
  }
  [[nodiscard]] std::span<std::byte> span() const { return {memory_.get(), bytes_}; }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  std::shared_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

/// A transfer's two buffers, its own or in memory of the caller's.
class TransferBuffers {
 public:
  TransferBuffer send, recv;

  /// Memory of the caller's instead: `workspace` outlives its use. Throws std::invalid_argument when it is
  /// short.
  void lie_in(std::span<std::byte> workspace, std::size_t send_bytes, std::size_t recv_bytes);
  [[nodiscard]] static std::size_t workspace_bytes(std::size_t send_bytes, std::size_t recv_bytes) {
    return aligned(send_bytes) + recv_bytes;
  }

 private:
  static constexpr std::size_t kAlignment = 64;  // bytes
  [[nodiscard]] static std::size_t aligned(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

class TransferMemory {
 public:
  virtual ~TransferMemory() = default;
  /// The one of a dit_memory_kind. Throws ExchangeError (DIT_ERROR_UNSUPPORTED) for kinds that this build has
  /// not.
  [[nodiscard]] static const TransferMemory& of(int memory_kind);

  /// Zeros.
  [[nodiscard]] virtual TransferBuffer allocate(std::size_t bytes) const = 0;
  /// Memory of the host that kernels of this kind write, too. Zeros.
  [[nodiscard]] virtual TransferBuffer allocate_on_host(std::size_t bytes) const = 0;
  /// Within memory of this kind, after what is in the stream.
  virtual void copy(std::span<const std::byte> from, std::byte* to, void* stream) const = 0;
  /// Likewise zeros.
  virtual void clear(std::span<std::byte> bytes, void* stream) const = 0;
  /// Tensor -> buffer and back, as of wire/pack.hpp; on a device after what is in the stream.
  virtual void pack(std::span<const PeerBlock> peers, std::size_t element_bytes, const SourceTensor& tensor,
                    const TransferBuffer& buffer, void* stream) const = 0;
  virtual void unpack(std::span<const PeerBlock> peers, std::size_t element_bytes,
                      const TransferBuffer& buffer, const TargetTensor& tensor, void* stream) const = 0;
  /// Rows of a buffer into a tensor; on a device after what is in the stream.
  virtual void unpack_rows(const std::vector<RowCopy>& copies, const TransferBuffer& buffer,
                           const TargetTensor& tensor, void* stream) const = 0;
  /// Memory of this kind to the host's, after all that was put on its device.
  virtual void fetch(const std::byte* from, std::span<std::byte> to) const = 0;
  /// Makes a device the thread's current one while the result lives: buffers and kernels are its. Null: it
  /// is, or the memory is the host's.
  [[nodiscard]] virtual std::shared_ptr<void> make_current(int device) const = 0;
  /// The thread's current device; 0 for host memory.
  [[nodiscard]] virtual int current_device() const = 0;
  /// Whether what is put on the stream is captured, to be carried out later: then nothing can wait for it.
  [[nodiscard]] virtual bool is_capturing(void* stream) const = 0;
  /// What is put on `stream` afterwards comes behind what is in `other`, by a mark of make_mark(). Host
  /// memory needs no order, and no mark.
  virtual void follow(void* stream, void* other, void* mark) const = 0;
  /// For one thread at a time, again and again.
  [[nodiscard]] virtual std::shared_ptr<void> make_mark() const = 0;
  /// Waits for what is in the stream; there is nothing to wait for in host memory.
  virtual void wait(void* stream) const = 0;
};

}  // namespace dit
