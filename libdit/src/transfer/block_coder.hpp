/// A tensor's blocks under a policy, wherever tensors, buffers and what is remembered lie: what coded
/// transfers are made of. In host memory it is wire/coded_blocks.hpp, on devices device/device_coder.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transfer/transfer_memory.hpp"
#include "wire/coded_blocks.hpp"

namespace dit {

class CodeLauncher;

/// What starts the codecs on the current device of a dit_memory_kind. Throws ExchangeError
/// (DIT_ERROR_UNSUPPORTED) for kinds that this build has not, and for host memory.
[[nodiscard]] CodeLauncher& code_launcher(int memory_kind);

class BlockCoder {
 public:
  /// What one rank remembers of one tensor's exchange.
  class Memory {
   public:
    virtual ~Memory() = default;
    /// Adds the rows that are remembered as received, by their ages in steps.
    virtual void count_ages(std::vector<std::uint64_t>& rows_by_age) const = 0;
    /// As new; on a device behind what is in the stream.
    virtual void forget(void* stream) = 0;
  };

  virtual ~BlockCoder() = default;
  /// For memory of a dit_memory_kind. Throws ExchangeError (DIT_ERROR_UNSUPPORTED) for kinds that this build
  /// has not.
  [[nodiscard]] static std::unique_ptr<BlockCoder> make(int memory_kind, ExchangeLayout layout,
                                                        WireElement element, SampleRows rows);

  [[nodiscard]] virtual std::unique_ptr<Memory> make_memory(const PeerFlags& remembered,
                                                            const MemoryOptions& options) const = 0;
  [[nodiscard]] virtual CodedBlocks::Sizes sizes(std::span<const WireMode> modes, WirePart part) const = 0;

  /// As of CodedBlocks; on a device after what is in the stream, without waiting. `watched`: take_loss()
  /// tells what it left behind.
  virtual void encode(std::span<const WireMode> modes, WirePart part, const SourceTensor& tensor,
                      Memory* memory, const TransferBuffer& buffer, bool watched,
                      std::span<const std::uint32_t> active, void* stream) = 0;
  virtual void decode(std::span<const WireMode> modes, const TransferBuffer& buffer, Memory* memory,
                      const TargetTensor& tensor, void* stream) = 0;
  virtual void remember(std::span<const WireMode> modes, const TransferBuffer& buffer, Memory* memory,
                        void* stream) = 0;

  /// Whether take_loss() can be asked of what is put on the stream: not where it is captured.
  [[nodiscard]] virtual bool can_watch(void* stream) const = 0;
  /// Of what was watched since the last call. Of a device's the host waits for it, in its stream.
  [[nodiscard]] virtual BlockLoss take_loss(void* stream) = 0;
  /// What is remembered of sent blocks, kept aside and put back.
  virtual void keep_sent(const Memory& memory, void* stream) = 0;
  virtual void put_back_sent(Memory& memory, void* stream) = 0;
};

}  // namespace dit
