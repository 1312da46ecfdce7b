#include "transfer/device/device_coder.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "wire/pack.hpp"

namespace dit {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + DeviceCoder::kAlignment - 1) / DeviceCoder::kAlignment * DeviceCoder::kAlignment;
}

void align(std::vector<dit_block>& blocks, std::size_t& total) {
  total = 0;
  for (dit_block& block : blocks) {
    block.offset = total;
    total += aligned(block.bytes);
  }
}

std::uint8_t* code_at(const TransferBuffer& buffer, const dit_block& block) {
  return reinterpret_cast<std::uint8_t*>(buffer.data() + block.offset);
}

bool is_in(WirePart part, const WireMode& mode) {
  return mode.late == (part == WirePart::later);
}

/// Throws as row_copies when a block leaves the tensor.
void require_in(std::span<const PeerBlock> blocks, WireElement element, const SourceTensor& tensor) {
  static_cast<void>(row_copies(blocks, bytes_of(element), tensor, packed_bytes(blocks, bytes_of(element))));
}

}  // namespace

/// What is remembered of one peer's block, and how old it is: all rows have travelled together.
class DeviceCoder::Reference {
 public:
  ReferenceParts parts{nullptr, nullptr, nullptr};
  float momentum = 0;
  std::uint64_t rows = 0;
  int age = 0;

  void grow_older() { age = std::min<int>(age + 1, std::numeric_limits<std::uint16_t>::max()); }
};

class DeviceCoder::OwnMemory final : public BlockCoder::Memory {
 public:
  OwnMemory(const ExchangeLayout& layout, const PeerFlags& remembered, const MemoryOptions& options,
            const TransferMemory& memory)
      : counts_ages_(options.ages) {
    const std::size_t bytes = place(sent_, layout.send, remembered.sent, options, nullptr, 0);
    buffer_ = memory.allocate(std::max<std::size_t>(
        place(received_, layout.recv, remembered.received, options, nullptr, bytes), 1));
    static_cast<void>(place(sent_, layout.send, remembered.sent, options, buffer_.data(), 0));
    static_cast<void>(place(received_, layout.recv, remembered.received, options, buffer_.data(), bytes));
  }

  /// Null where nothing is remembered of the peer.
  [[nodiscard]] Reference* sent_to(std::size_t peer) { return known(sent_[peer]); }
  [[nodiscard]] Reference* received_from(std::size_t peer) { return known(received_[peer]); }

  void count_ages(std::vector<std::uint64_t>& rows_by_age) const override {
    for (const Reference& of : received_) {
      if (!counts_ages_ || of.parts.value == nullptr) {
        continue;
      }
      const auto age = static_cast<std::size_t>(of.age);
      rows_by_age.resize(std::max(rows_by_age.size(), age + 1));
      rows_by_age[age] += of.rows;
    }
  }

 private:
  static Reference* known(Reference& of) { return of.parts.value != nullptr ? &of : nullptr; }

  /// Lays one side's memories out from byte `at` on; returns their end. `memory` null: only that.
  static std::size_t place(std::vector<Reference>& side, std::span<const PeerBlock> blocks,
                           std::span<const std::uint8_t> remembered, const MemoryOptions& options,
                           std::byte* memory, std::size_t at) {
    side.assign(blocks.size(), {});
    const auto take = [&](std::size_t bytes) {
      return reinterpret_cast<std::uint8_t*>(memory) + std::exchange(at, at + aligned(bytes));
    };
    for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
      const auto numbers = static_cast<std::size_t>(blocks[peer].elements());
      if (remembered[peer] == 0 || numbers == 0) {
        continue;
      }
      std::uint8_t* const value = take(2 * numbers);
      std::uint8_t* const digits = take(numbers);
      std::uint8_t* const change = options.momentum != 0 ? take(numbers) : nullptr;
      if (memory != nullptr) {
        side[peer].parts = {reinterpret_cast<std::uint16_t*>(value), digits, change};
        side[peer].momentum = options.momentum;
        side[peer].rows = static_cast<std::uint64_t>(blocks[peer].rows());
      }
    }
    return at;
  }

  bool counts_ages_;
  TransferBuffer buffer_;
  std::vector<Reference> sent_, received_;
};

DeviceCoder::DeviceCoder(ExchangeLayout layout, WireElement element, SampleRows rows,
                         const TransferMemory& memory, CodeLauncher& launcher)
    : blocks_(std::move(layout), element, std::move(rows)),
      element_(element),
      memory_(memory),
      launcher_(launcher) {}

std::unique_ptr<BlockCoder::Memory> DeviceCoder::make_memory(const PeerFlags& remembered,
                                                             const MemoryOptions& options) const {
  return std::make_unique<OwnMemory>(blocks_.layout(), remembered, options, memory_);
}

CodedBlocks::Sizes DeviceCoder::sizes(std::span<const WireMode> modes, WirePart part) const {
  CodedBlocks::Sizes sizes = blocks_.sizes(modes, part);
  align(sizes.send, sizes.send_bytes);
  align(sizes.recv, sizes.recv_bytes);
  return sizes;
}

LaneFormat DeviceCoder::format_for(const WireMode& mode) const {
  return lane_format(coded_format(mode, element_), element_);
}

CodeJob DeviceCoder::job_for(const PeerBlock& block, const WireMode& mode, const BlockPlace& place,
                             const Reference* memory, std::uint8_t* code) const {
  if (mode.leaves_rows()) {
    throw std::invalid_argument("wire mode " + to_string(mode) +
                                ": expected all rows of a block to travel between devices");
  }
  if (memory == nullptr && (mode.remembers(WireEnd::sender) || mode.remembers(WireEnd::receiver))) {
    throw std::logic_error("wire mode " + to_string(mode) + " of a block that nobody remembers");
  }
  CodeJob job = job_of(coded_format(mode, element_), element_, place, block.rows(), code);
  if (memory != nullptr) {
    give_memory(job, memory->parts, memory->momentum, mode.residual);
  }
  return job;
}

void DeviceCoder::add_encode(const PeerBlock& block, const WireMode& mode, const BlockPlace& place,
                             Reference* memory, std::uint8_t* code) {
  if (memory != nullptr) {
    memory->age = mode.skip ? memory->age : -1;
    memory->grow_older();
  }
  if (!mode.skip) {
    return queue_.add(CodeWork::encode, format_for(mode), job_for(block, mode, place, memory, code));
  }
  CodeJob job = job_for(block, mode, place, memory, nullptr);
  job.segments = segments_of(LaneFormat::fp32, job.numbers, place.row.value);
  job.place.tensor = nullptr;
  queue_.add(CodeWork::extrapolate, LaneFormat::fp32, job);
}

void DeviceCoder::add_decode(const PeerBlock& block, const WireMode& mode, const BlockPlace& place,
                             Reference* memory, std::uint8_t* code) {
  const bool stays = mode.skip || mode.late;
  if (memory != nullptr) {
    memory->age = mode.skip ? memory->age : mode.late ? 0 : -1;
    memory->grow_older();
  }
  if (!stays) {
    return queue_.add(CodeWork::decode, format_for(mode), job_for(block, mode, place, memory, code));
  }
  CodeJob job = job_for(block, mode, place, memory, nullptr);
  job.segments = segments_of(LaneFormat::fp32, job.numbers, place.row.value);
  queue_.add(mode.skip ? CodeWork::extrapolate : CodeWork::recall, LaneFormat::fp32, job);
}

void DeviceCoder::encode(std::span<const WireMode> modes, WirePart part, const SourceTensor& tensor,
                         Memory* memory, const TransferBuffer& buffer, CodedBlocks::Loss* /*loss*/,
                         std::span<const std::uint32_t> /*active*/, void* stream) {
  const std::vector<PeerBlock>& blocks = blocks_.layout().send;
  require_in(blocks, element_, tensor);
  const CodedBlocks::Sizes places = sizes(modes, part);
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const PeerBlock& block = blocks[peer];
    if (block.elements() == 0 || !is_in(part, modes[peer])) {
      continue;
    }
    Reference* const remembered =
        memory != nullptr ? static_cast<OwnMemory*>(memory)->sent_to(peer) : nullptr;
    if (remembered == nullptr && modes[peer].is_exact()) {
      const dit_block& at = places.send[peer];
      memory_.pack(std::span(&block, 1), bytes_of(element_), tensor,
                   TransferBuffer::borrowed(buffer.span().subspan(at.offset, at.bytes)), stream);
    } else {
      add_encode(block, modes[peer], place_of(block, element_, tensor), remembered,
                 code_at(buffer, places.send[peer]));
    }
  }
  queue_.launch(launcher_, stream);
}

void DeviceCoder::decode(std::span<const WireMode> modes, const TransferBuffer& buffer, Memory* memory,
                         const TargetTensor& tensor, void* stream) {
  const std::vector<PeerBlock>& blocks = blocks_.layout().recv;
  require_in(blocks, element_, SourceTensor(tensor.bytes, tensor.shape, tensor.strides));
  const CodedBlocks::Sizes places = sizes(modes, WirePart::now);
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const PeerBlock& block = blocks[peer];
    if (block.elements() == 0) {
      continue;
    }
    Reference* const remembered =
        memory != nullptr ? static_cast<OwnMemory*>(memory)->received_from(peer) : nullptr;
    if (remembered == nullptr && modes[peer].is_exact()) {
      const dit_block& at = places.recv[peer];
      memory_.unpack(std::span(&block, 1), bytes_of(element_),
                     TransferBuffer::borrowed(buffer.span().subspan(at.offset, at.bytes)), tensor, stream);
    } else {
      add_decode(block, modes[peer], place_of(block, element_, tensor), remembered,
                 code_at(buffer, places.recv[peer]));
    }
  }
  queue_.launch(launcher_, stream);
}

void DeviceCoder::remember(std::span<const WireMode> modes, const TransferBuffer& buffer, Memory* memory,
                           void* stream) {
  const std::vector<PeerBlock>& blocks = blocks_.layout().recv;
  const CodedBlocks::Sizes places = sizes(modes, WirePart::later);
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const PeerBlock& block = blocks[peer];
    if (block.elements() == 0 || !modes[peer].late) {
      continue;
    }
    Reference* const remembered = static_cast<OwnMemory*>(memory)->received_from(peer);
    remembered->age = 0;
    BlockPlace nowhere = place_of(block, element_, nullptr, {}, {});
    nowhere.tensor = nullptr;
    queue_.add(CodeWork::decode, format_for(modes[peer]),
               job_for(block, modes[peer], nowhere, remembered, code_at(buffer, places.recv[peer])));
  }
  queue_.launch(launcher_, stream);
}

void DeviceCoder::keep_sent(const Memory& /*memory*/) {
  throw std::logic_error("what devices remember is not kept aside");
}
void DeviceCoder::put_back_sent(Memory& /*memory*/) {
  throw std::logic_error("what devices remember is not kept aside");
}

}  // namespace dit
