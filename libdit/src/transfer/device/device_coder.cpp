#include "transfer/device/device_coder.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "wire/pack.hpp"
#include "wire/v_major.hpp"

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

/// What is remembered of one peer's block, and when its rows last travelled.
class DeviceCoder::Reference {
 public:
  ReferenceParts parts{nullptr, nullptr, nullptr};
  float momentum = 0;
  std::uint32_t rows = 0;
  int most_age = 0;
  // Where rows travel by themselves, of each:
  std::uint32_t* steps = nullptr;  // in which it last did so
  float* scores = nullptr;
  std::uint32_t *active = nullptr, *others = nullptr;

  /// The next step of the block: `age` of rows that travel with all others; nothing: they do not.
  void begin_step(std::optional<std::uint32_t> age) {
    ++step;
    if (age) {
      all_travelled = step - *age;
    }
  }
  void all_are_young() { all_travelled = step; }
  [[nodiscard]] std::uint32_t age(std::uint32_t travelled) const {
    return std::min<std::uint32_t>(step - std::max(travelled, all_travelled),
                                   std::numeric_limits<std::uint16_t>::max());
  }

  std::uint32_t step = 0;
  std::uint32_t all_travelled = 0;  // the step in which all did
};

class DeviceCoder::OwnMemory final : public BlockCoder::Memory {
 public:
  OwnMemory(const ExchangeLayout& layout, const PeerFlags& remembered, const MemoryOptions& options,
            const TransferMemory& memory)
      : counts_ages_(options.ages), memory_(memory) {
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
      std::vector<std::uint32_t> steps(of.rows);
      memory_.fetch(reinterpret_cast<const std::byte*>(of.steps), std::as_writable_bytes(std::span(steps)));
      for (const std::uint32_t travelled : steps) {
        const std::size_t age = of.age(travelled);
        rows_by_age.resize(std::max(rows_by_age.size(), age + 1));
        ++rows_by_age[age];
      }
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
      const auto rows = static_cast<std::size_t>(blocks[peer].rows());
      std::uint8_t* const steps = take(4 * rows);
      std::uint8_t* const scores = take(4 * rows);
      std::uint8_t* const active = take(4 * rows);
      std::uint8_t* const others = take(4 * rows);
      if (memory != nullptr) {
        side[peer].parts = {reinterpret_cast<std::uint16_t*>(value), digits, change};
        side[peer].momentum = options.momentum;
        side[peer].rows = static_cast<std::uint32_t>(rows);
        side[peer].most_age = options.most_age;
        side[peer].steps = reinterpret_cast<std::uint32_t*>(steps);
        side[peer].scores = reinterpret_cast<float*>(scores);
        side[peer].active = reinterpret_cast<std::uint32_t*>(active);
        side[peer].others = reinterpret_cast<std::uint32_t*>(others);
      }
    }
    return at;
  }

  bool counts_ages_;
  const TransferMemory& memory_;
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
  if (mode.stays) {
    throw std::invalid_argument("wire mode " + to_string(mode) + ": expected no rows of V-Major on a device");
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
  if (mode.leaves_rows() && memory != nullptr) {
    return add_rows(RowWork::measure, block, mode, place, *memory, code);
  }
  if (memory != nullptr) {
    memory->begin_step(mode.skip ? std::nullopt : std::optional(0U));
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
  if (mode.leaves_rows() && memory != nullptr) {
    return add_rows(RowWork::read, block, mode, place, *memory, code);
  }
  if (memory != nullptr) {  // what is late is a step old until remember()
    memory->begin_step(mode.skip ? std::nullopt : std::optional(mode.late ? 1U : 0U));
  }
  if (!stays) {
    return queue_.add(CodeWork::decode, format_for(mode), job_for(block, mode, place, memory, code));
  }
  CodeJob job = job_for(block, mode, place, memory, nullptr);
  job.segments = segments_of(LaneFormat::fp32, job.numbers, place.row.value);
  queue_.add(mode.skip ? CodeWork::extrapolate : CodeWork::recall, LaneFormat::fp32, job);
}

void DeviceCoder::add_rows(RowWork work, const PeerBlock& block, const WireMode& mode,
                           const BlockPlace& place, Reference& memory, std::uint8_t* code) {
  const BlockCodec codec(mode, element_);
  const std::int64_t travelling = codec.travelling_rows(block.rows());
  RowChoice choice;
  choice.job = job_for(block, mode, place, &memory, nullptr);
  choice.rows = memory.rows;
  choice.travelling = static_cast<std::uint32_t>(travelling);
  choice.scores = memory.scores;
  choice.active = memory.active;
  choice.others = memory.others;
  choice.mask = code;
  choice.steps = memory.steps;
  const bool any_age = memory.most_age == 0;
  choice.old_step = any_age ? -1 : std::int64_t{memory.step} + 1 - memory.most_age;
  const bool all_old = !any_age && memory.all_travelled > choice.old_step;
  choice.old_step = all_old ? -1 : choice.old_step;  // as all of them have travelled since
  memory.begin_step(std::nullopt);
  choice.step = memory.step;
  queue_.add(work, choice);

  const bool sends = work == RowWork::measure;
  BlockPlace some = place;
  some.rows = memory.active;
  CodeJob job =
      job_of(coded_format(mode, element_), element_, some, travelling, code + row_mask_bytes(block.rows()));
  give_memory(job, memory.parts, memory.momentum, mode.residual);
  queue_.add(sends ? CodeWork::encode : CodeWork::decode, format_for(mode), job);
  some.rows = memory.others;
  some.tensor = sends ? nullptr : place.tensor;
  job = job_of(WireFormat::full, WireElement::fp32, some, block.rows() - travelling, nullptr);
  job.element = element_;
  give_memory(job, memory.parts, memory.momentum, mode.residual);
  queue_.add(CodeWork::extrapolate, LaneFormat::fp32, job);
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
    remembered->all_are_young();
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
