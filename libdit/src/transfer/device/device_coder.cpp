#include "transfer/device/device_coder.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "wire/pack.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

void align(std::vector<dit_block>& blocks, std::size_t& total) {
  total = 0;
  for (dit_block& block : blocks) {
    block.offset = total;
    total += BlockReferences::aligned(block.bytes);
  }
}

std::uint8_t* code_at(const TransferBuffer& buffer, const dit_block& block) {
  return reinterpret_cast<std::uint8_t*>(buffer.data() + block.offset);
}

bool is_in(WirePart part, const WireMode& mode) {
  return mode.late == (part == WirePart::later);
}

}  // namespace

DeviceCoder::DeviceCoder(ExchangeLayout layout, WireElement element, SampleRows rows,
                         const TransferMemory& memory, CodeLauncher& launcher)
    : rows_(std::move(rows)),
      blocks_(std::move(layout), element, rows_),
      element_(element),
      memory_(memory),
      launcher_(launcher),
      losses_(blocks_.layout().send.size(), memory, launcher) {}

std::unique_ptr<BlockCoder::Memory> DeviceCoder::make_memory(const PeerFlags& remembered,
                                                             const MemoryOptions& options) const {
  return std::make_unique<BlockReferences>(blocks_.layout(), remembered, options, memory_);
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
                             const BlockReference* memory, std::uint8_t* code) const {
  if (memory == nullptr && mode.remembers(WireEnd::sender)) {
    throw std::logic_error("wire mode " + to_string(mode) + " of a block that nobody remembers");
  }
  CodeJob job = job_of(coded_format(mode, element_), element_, place, block.rows(), code);
  if (memory != nullptr) {
    give_memory(job, memory->parts, memory->momentum, mode.residual);
  }
  return job;
}

WireMode DeviceCoder::mode_of(const WireMode& mode, const std::vector<std::uint8_t>& whole,
                              std::size_t peer) const {
  WireMode own = mode;
  if (!whole.empty() && whole[peer] == 0) {
    own.stays.reset();
  }
  return own;
}

void DeviceCoder::add_encode(const PeerBlock& block, const WireMode& mode, const BlockPlace& place,
                             BlockReference* memory, std::uint8_t* code,
                             std::span<const std::uint32_t> active) {
  if (mode.leaves_rows()) {
    const RowWork first = mode.stays ? RowWork::write : RowWork::measure;
    return add_rows(first, block, mode, place, memory, code, active);
  }
  if (memory != nullptr) {
    memory->ages.next();
    if (!mode.skip) memory->ages.all_travel();
  }
  if (!mode.skip) {
    return queue_.add(CodeWork::encode, format_for(mode), job_for(block, mode, place, memory, code));
  }
  CodeJob job = job_for(block, mode, place, memory, nullptr);
  job.place.tensor = nullptr;
  queue_.add(CodeWork::extrapolate, LaneFormat::fp32, job);
}

void DeviceCoder::add_decode(const PeerBlock& block, const WireMode& mode, const BlockPlace& place,
                             BlockReference* memory, std::uint8_t* code) {
  if (mode.leaves_rows()) {
    return add_rows(RowWork::read, block, mode, place, memory, code, {});
  }
  const bool stays = mode.skip || mode.late;
  if (memory != nullptr) {
    memory->ages.next();
    if (!mode.skip) memory->ages.all_travel(mode.late ? 1 : 0);  // late: a step old until remember()
  }
  if (!stays) {
    return queue_.add(CodeWork::decode, format_for(mode), job_for(block, mode, place, memory, code));
  }
  CodeJob job = job_for(block, mode, place, memory, nullptr);
  job.segments = segments_of(LaneFormat::fp32, job.numbers, place.row.value);
  queue_.add(mode.skip ? CodeWork::extrapolate : CodeWork::recall, LaneFormat::fp32, job);
}

void DeviceCoder::add_loss(const PeerBlock& block, const BlockPlace& place, const BlockReference& memory) {
  CodeJob job = job_of(WireFormat::full, element_, place, block.rows(), nullptr);
  give_memory(job, {memory.parts.value, memory.parts.digits, nullptr}, 0, false);
  losses_.add(job);
}

RowChoice DeviceCoder::choice_for(const PeerBlock& block, const BlockPlace& place, BlockReference& memory,
                                  std::int64_t travelling, std::uint8_t* code) const {
  RowChoice choice;
  choice.job = job_of(WireFormat::full, element_, place, block.rows(), nullptr);
  give_memory(choice.job, memory.parts, memory.momentum, false);
  choice.rows = memory.rows;
  choice.travelling = static_cast<std::uint32_t>(travelling);
  choice.scores = memory.scores;
  choice.active = memory.active;
  choice.others = memory.others;
  choice.mask = code;
  choice.steps = memory.steps;
  choice.old_step = memory.ages.old_step(memory.most_age);
  memory.ages.next();
  choice.step = memory.ages.now();
  return choice;
}

void DeviceCoder::add_rows(RowWork first, const PeerBlock& block, const WireMode& mode,
                           const BlockPlace& place, BlockReference* memory, std::uint8_t* code,
                           std::span<const std::uint32_t> active) {
  const std::int64_t travelling = BlockCodec(mode, element_, rows_.samples).travelling_rows(block.rows());
  const bool sends = first != RowWork::read;
  if (memory == nullptr && (mode.remembers(WireEnd::sender) || !sends)) {
    throw std::logic_error("wire mode " + to_string(mode) + " of a block that nobody remembers");
  }
  BlockPlace some = place;
  some.rows = memory != nullptr ? memory->active : active.data();
  if (first == RowWork::write) {
    if (static_cast<std::int64_t>(active.size()) != travelling) {
      throw std::invalid_argument("what is active has " + std::to_string(active.size()) + " rows: expected " +
                                  std::to_string(travelling) + " of " + std::to_string(block.rows()));
    }
    RowChoice choice;
    choice.rows = static_cast<std::uint32_t>(block.rows());
    choice.travelling = static_cast<std::uint32_t>(travelling);
    choice.active = const_cast<std::uint32_t*>(active.data());  // only read
    choice.mask = code;
    queue_.add(RowWork::write, choice);
  }
  if (memory != nullptr) {
    queue_.add(first == RowWork::write ? RowWork::read : first,
               choice_for(block, place, *memory, travelling, code));
  }
  CodeJob job =
      job_of(coded_format(mode, element_), element_, some, travelling, code + row_mask_bytes(block.rows()));
  if (memory != nullptr) {
    give_memory(job, memory->parts, memory->momentum, mode.residual);
  }
  queue_.add(sends ? CodeWork::encode : CodeWork::decode, format_for(mode), job);
  if (memory == nullptr) {
    return;
  }
  some.rows = memory->others;
  some.tensor = sends ? nullptr : place.tensor;
  job = job_of(WireFormat::full, element_, some, block.rows() - travelling, nullptr);
  give_memory(job, memory->parts, memory->momentum, false);
  queue_.add(CodeWork::extrapolate, LaneFormat::fp32, job);
}

void DeviceCoder::encode(std::span<const WireMode> modes, WirePart part, const SourceTensor& tensor,
                         Memory* memory, const TransferBuffer& buffer, bool watched,
                         std::span<const std::uint32_t> active, void* stream) {
  const std::vector<PeerBlock>& blocks = blocks_.layout().send;
  require_in_tensor(blocks, bytes_of(element_), tensor);
  const CodedBlocks::Sizes places = sizes(modes, part);
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const PeerBlock& block = blocks[peer];
    if (block.elements() == 0 || !is_in(part, modes[peer])) {
      continue;
    }
    BlockReference* const remembered =
        memory != nullptr ? static_cast<BlockReferences*>(memory)->sent_to(peer) : nullptr;
    if (remembered == nullptr && mode_of(modes[peer], rows_.whole.sent, peer).is_exact()) {
      const dit_block& at = places.send[peer];
      memory_.pack(std::span(&block, 1), bytes_of(element_), tensor,
                   TransferBuffer::borrowed(buffer.span().subspan(at.offset, at.bytes)), stream);
      continue;
    }
    const BlockPlace place = place_of(block, element_, tensor);
    add_encode(block, mode_of(modes[peer], rows_.whole.sent, peer), place, remembered,
               code_at(buffer, places.send[peer]), active);
    if (watched && remembered != nullptr) {
      add_loss(block, place, *remembered);
    }
  }
  if (part == WirePart::later) {  // of what the receiver uses now
    losses_.launch(stream);
  }
  queue_.launch(launcher_, stream);
  losses_.launch(stream);
}

void DeviceCoder::decode(std::span<const WireMode> modes, const TransferBuffer& buffer, Memory* memory,
                         const TargetTensor& tensor, void* stream) {
  const std::vector<PeerBlock>& blocks = blocks_.layout().recv;
  require_in_tensor(blocks, bytes_of(element_), SourceTensor(tensor.bytes, tensor.shape, tensor.strides));
  const CodedBlocks::Sizes places = sizes(modes, WirePart::now);
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const PeerBlock& block = blocks[peer];
    if (block.elements() == 0) {
      continue;
    }
    BlockReference* const remembered =
        memory != nullptr ? static_cast<BlockReferences*>(memory)->received_from(peer) : nullptr;
    if (remembered == nullptr && mode_of(modes[peer], rows_.whole.received, peer).is_exact()) {
      const dit_block& at = places.recv[peer];
      memory_.unpack(std::span(&block, 1), bytes_of(element_),
                     TransferBuffer::borrowed(buffer.span().subspan(at.offset, at.bytes)), tensor, stream);
    } else {
      add_decode(block, mode_of(modes[peer], rows_.whole.received, peer), place_of(block, element_, tensor),
                 remembered, code_at(buffer, places.recv[peer]));
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
    BlockReference* const remembered = static_cast<BlockReferences*>(memory)->received_from(peer);
    remembered->ages.all_travel();
    BlockPlace nowhere = place_of(block, element_, nullptr, {}, {});
    nowhere.tensor = nullptr;
    queue_.add(CodeWork::decode, format_for(modes[peer]),
               job_for(block, modes[peer], nowhere, remembered, code_at(buffer, places.recv[peer])));
  }
  queue_.launch(launcher_, stream);
}

void DeviceCoder::keep_sent(const Memory& memory, void* stream) {
  static_cast<const BlockReferences&>(memory).keep_sent(kept_, stream);
}
void DeviceCoder::put_back_sent(Memory& memory, void* stream) {
  static_cast<BlockReferences&>(memory).put_back_sent(kept_, stream);
}

}  // namespace dit
