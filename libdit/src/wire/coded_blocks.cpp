#include "wire/coded_blocks.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "wire/pack.hpp"

namespace dit {
namespace {

std::size_t elements_of(const PeerBlock& block) {
  return static_cast<std::size_t>(block.elements());
}

std::uint64_t side_bytes(std::span<const PeerBlock> blocks, std::span<const std::uint8_t> remembered,
                         const MemoryOptions& options) {
  std::uint64_t bytes = 0;
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    if (remembered[peer] != 0) {
      bytes += elements_of(blocks[peer]) * reference_bytes(options.momentum != 0);
      bytes += options.ages ? static_cast<std::uint64_t>(blocks[peer].rows()) * sizeof(std::uint16_t) : 0;
    }
  }
  return bytes;
}

bool is_in(WirePart part, const WireMode& mode) {
  return mode.late == (part == WirePart::later);
}

void require_modes(std::size_t modes, std::size_t peers) {
  if (modes != peers) {
    throw std::invalid_argument(std::to_string(modes) + " wire modes: expected one for each of " +
                                std::to_string(peers) + " blocks");
  }
}

}  // namespace

ExchangeMemory::Side::Side(std::span<const PeerBlock> blocks, std::span<const std::uint8_t> remembered,
                           const MemoryOptions& options) {
  std::size_t numbers = 0, rows = 0;
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    Place place;
    if (remembered[peer] != 0) {
      place = {numbers, elements_of(blocks[peer]), rows, static_cast<std::size_t>(blocks[peer].rows())};
    }
    numbers += place.numbers;
    rows += place.rows;
    places.push_back(place);
  }
  value.assign(numbers, 0);
  digits.assign(numbers, 0);
  change.assign(options.momentum != 0 ? numbers : 0, 0);
  ages.assign(options.ages ? rows : 0, 0);
}

BlockMemory ExchangeMemory::Side::of(std::size_t peer, const MemoryOptions& options) {
  const Place& place = places[peer];
  BlockMemory memory;
  memory.reference.value = std::span(value).subspan(place.number, place.numbers);
  memory.reference.digits = std::span(digits).subspan(place.number, place.numbers);
  if (!change.empty()) {
    memory.reference.change = std::span(change).subspan(place.number, place.numbers);
  }
  memory.reference.momentum = options.momentum;
  if (!ages.empty()) {
    memory.ages = std::span(ages).subspan(place.row, place.rows);
  }
  memory.most_age = options.most_age;
  return memory;
}

ExchangeMemory::ExchangeMemory(const ExchangeLayout& layout, const PeerFlags& remembered,
                               const MemoryOptions& options)
    : options_(options),
      sent_(layout.send, remembered.sent, options),
      received_(layout.recv, remembered.received, options) {}

CacheBytes ExchangeMemory::bytes(const ExchangeLayout& layout, const PeerFlags& remembered,
                                 const MemoryOptions& options) {
  return {side_bytes(layout.send, remembered.sent, options),
          side_bytes(layout.recv, remembered.received, options)};
}

void ExchangeMemory::keep_sent(Sent& kept) const {
  kept.value = sent_.value;
  kept.digits = sent_.digits;
  kept.change = sent_.change;
  kept.ages = sent_.ages;
}

void ExchangeMemory::put_back_sent(const Sent& kept) {
  sent_.value = kept.value;
  sent_.digits = kept.digits;
  sent_.change = kept.change;
  sent_.ages = kept.ages;
}

void ExchangeMemory::Side::forget() {
  for (std::vector<std::uint16_t>* const numbers : {&value, &ages}) std::ranges::fill(*numbers, 0);
  for (std::vector<std::uint8_t>* const numbers : {&digits, &change}) std::ranges::fill(*numbers, 0);
}

void ExchangeMemory::forget() {
  sent_.forget();
  received_.forget();
}

CodedBlocks::CodedBlocks(ExchangeLayout layout, WireElement element, SampleRows rows)
    : layout_(std::move(layout)), element_(element), rows_(std::move(rows)) {}

WireMode CodedBlocks::mode_of(const WireMode& mode, const Flags& whole, std::size_t peer) const {
  WireMode own = mode;
  if (!whole.empty() && whole[peer] == 0) {
    own.stays.reset();
  }
  return own;
}

std::vector<dit_block> CodedBlocks::places(std::span<const PeerBlock> blocks, std::span<const WireMode> modes,
                                           const Flags& whole, WirePart part, std::size_t& total) const {
  require_modes(modes.size(), blocks.size());
  std::vector<dit_block> result;
  total = 0;
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const BlockCodec codec = codec_of(mode_of(modes[peer], whole, peer));
    const std::size_t bytes =
        is_in(part, modes[peer]) ? codec.encoded_bytes(blocks[peer].rows(), blocks[peer].row_elements) : 0;
    result.push_back({total, bytes});
    total += bytes;
  }
  return result;
}

CodedBlocks::Sizes CodedBlocks::sizes(std::span<const WireMode> modes, WirePart part) const {
  Sizes sizes;
  sizes.send = places(layout_.send, modes, rows_.whole.sent, part, sizes.send_bytes);
  sizes.recv = places(layout_.recv, modes, rows_.whole.received, part, sizes.recv_bytes);
  return sizes;
}

CodedBlocks::Sizes CodedBlocks::of_peers(Sizes sizes, std::size_t blocks_of_peer) {
  const auto join = [&](std::vector<dit_block>& blocks) {
    std::vector<dit_block> joined;
    for (std::size_t first = 0; first < blocks.size(); first += blocks_of_peer) {
      joined.push_back(blocks[first]);
      for (std::size_t at = first + 1; at < first + blocks_of_peer; ++at) {
        // With what aligns them between them; one of no bytes may begin anywhere.
        if (blocks[at].bytes > 0)
          joined.back().bytes = blocks[at].offset + blocks[at].bytes - joined.back().offset;
      }
    }
    blocks = std::move(joined);
  };
  if (blocks_of_peer > 1) {
    join(sizes.send);
    join(sizes.recv);
  }
  return sizes;
}

std::span<std::byte> CodedBlocks::room_for(const PeerBlock& block, std::vector<std::byte>& buffer) const {
  const std::size_t bytes = elements_of(block) * bytes_of(element_);
  if (buffer.size() < bytes) {
    buffer.resize(bytes);
  }
  return std::span(buffer).first(bytes);
}

void CodedBlocks::encode_block(const PeerBlock& block, const WireMode& mode, const SourceTensor& tensor,
                               BlockMemory* memory, std::span<std::byte> code, BlockLoss* loss,
                               std::span<const std::uint32_t> active) {
  if (memory == nullptr && mode.is_exact()) {
    return pack(std::span(&block, 1), bytes_of(element_), tensor, code);
  }
  const std::span<std::byte> rows = room_for(block, scratch_);
  pack(std::span(&block, 1), bytes_of(element_), tensor, rows);
  const bool watched = loss != nullptr && memory != nullptr;
  const auto add_loss = [&] { *loss = sum_of(*loss, loss_of(rows, element_, memory->reference)); };
  if (watched && mode.late) {
    add_loss();  // of what the receiver uses now
  }
  codec_of(mode).encode(block.rows(), block.row_elements, rows, memory, code, active);
  if (watched && !mode.late) {
    add_loss();
  }
}

void CodedBlocks::encode(std::span<const WireMode> modes, WirePart part, const SourceTensor& tensor,
                         ExchangeMemory* memory, std::span<std::byte> buffer, BlockLoss* loss,
                         std::span<const std::uint32_t> active) {
  const Sizes places = sizes(modes, part);
  for (std::size_t peer = 0; peer < modes.size(); ++peer) {
    const PeerBlock& block = layout_.send[peer];
    if (block.elements() == 0 || !is_in(part, modes[peer])) {
      continue;
    }
    BlockMemory remembered = memory != nullptr ? memory->sent_to(peer) : BlockMemory{};
    encode_block(block, mode_of(modes[peer], rows_.whole.sent, peer), tensor,
                 remembered.reference.value.empty() ? nullptr : &remembered,
                 buffer.subspan(places.send[peer].offset, places.send[peer].bytes), loss, active);
  }
}

void CodedBlocks::decode_block(const PeerBlock& block, const WireMode& mode, std::span<const std::byte> code,
                               BlockMemory* memory, const TargetTensor& tensor) {
  if (memory == nullptr && mode.is_exact()) {
    return unpack(std::span(&block, 1), bytes_of(element_), code, tensor);
  }
  const std::span<std::byte> rows = room_for(block, scratch_);
  if (mode.late && memory != nullptr) {
    recall(memory->reference, element_, rows);
    std::fill(memory->ages.begin(), memory->ages.end(), std::uint16_t{1});  // until remember()
  } else {
    codec_of(mode).decode(block.rows(), block.row_elements, code, memory, rows);
  }
  unpack(std::span(&block, 1), bytes_of(element_), rows, tensor);
}

void CodedBlocks::decode(std::span<const WireMode> modes, std::span<const std::byte> buffer,
                         ExchangeMemory* memory, const TargetTensor& tensor) {
  const Sizes places = sizes(modes, WirePart::now);
  for (std::size_t peer = 0; peer < modes.size(); ++peer) {
    const PeerBlock& block = layout_.recv[peer];
    if (block.elements() == 0) {
      continue;
    }
    BlockMemory remembered = memory != nullptr ? memory->received_from(peer) : BlockMemory{};
    try {
      decode_block(block, mode_of(modes[peer], rows_.whole.received, peer),
                   buffer.subspan(places.recv[peer].offset, places.recv[peer].bytes),
                   remembered.reference.value.empty() ? nullptr : &remembered, tensor);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("from rank " + std::to_string(peer / rows_.blocks_of_peer) + ": " +
                                  error.what());
    }
  }
}

void CodedBlocks::remember(std::span<const WireMode> modes, std::span<const std::byte> buffer,
                           ExchangeMemory* memory) {
  const Sizes places = sizes(modes, WirePart::later);
  for (std::size_t peer = 0; peer < modes.size(); ++peer) {
    const PeerBlock& block = layout_.recv[peer];
    if (block.elements() == 0 || !modes[peer].late) {
      continue;
    }
    BlockMemory remembered = memory->received_from(peer);
    codec_of(modes[peer])
        .decode(block.rows(), block.row_elements,
                buffer.subspan(places.recv[peer].offset, places.recv[peer].bytes), &remembered,
                room_for(block, scratch_));
  }
}

}  // namespace dit
