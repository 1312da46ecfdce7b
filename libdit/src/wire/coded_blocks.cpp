#include "wire/coded_blocks.hpp"

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
      bytes += elements_of(blocks[peer]) * sizeof(float) * (options.momentum != 0 ? 2 : 1);
      bytes += options.ages ? static_cast<std::uint64_t>(blocks[peer].rows()) * sizeof(std::uint16_t) : 0;
    }
  }
  return bytes;
}

std::vector<dit_block> blocks_of(std::span<const PeerBlock> blocks, std::span<const WireMode> modes,
                                 WireElement element, std::size_t& total) {
  std::vector<dit_block> result;
  total = 0;
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const std::size_t bytes =
        BlockCodec(modes[peer], element).encoded_bytes(blocks[peer].rows(), blocks[peer].row_elements);
    result.push_back({total, bytes});
    total += bytes;
  }
  return result;
}

void add_loss(std::span<const std::byte> rows, WireElement element, std::span<const float> came,
              CodedBlocks::Loss& loss) {
  std::vector<float> values(came.size());
  load_elements(rows, element, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    const double off = value - static_cast<double>(came[i]);
    loss.error += off * off;
    loss.whole += value * value;
  }
}

void require_modes(std::size_t modes, std::size_t peers) {
  if (modes != peers) {
    throw std::invalid_argument(std::to_string(modes) + " wire modes: expected one for each of " +
                                std::to_string(peers) + " peers");
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
  value.assign(numbers, 0.0F);
  change.assign(options.momentum != 0 ? numbers : 0, 0.0F);
  ages.assign(options.ages ? rows : 0, 0);
}

BlockMemory ExchangeMemory::Side::of(std::size_t peer, const MemoryOptions& options) {
  const Place& place = places[peer];
  BlockMemory memory;
  memory.reference.value = std::span(value).subspan(place.number, place.numbers);
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

ExchangeMemory::ExchangeMemory(const ExchangeLayout& layout, std::span<const std::uint8_t> remembered,
                               const MemoryOptions& options)
    : options_(options),
      sent_(layout.send, remembered, options),
      received_(layout.recv, remembered, options) {}

std::uint64_t ExchangeMemory::bytes(const ExchangeLayout& layout, std::span<const std::uint8_t> remembered,
                                    const MemoryOptions& options) {
  return side_bytes(layout.send, remembered, options) + side_bytes(layout.recv, remembered, options);
}

CodedBlocks::CodedBlocks(ExchangeLayout layout, WireElement element)
    : layout_(std::move(layout)), element_(element) {}

CodedBlocks::Sizes CodedBlocks::sizes(std::span<const WireMode> modes) const {
  require_modes(modes.size(), layout_.send.size());
  Sizes sizes;
  sizes.send = blocks_of(layout_.send, modes, element_, sizes.send_bytes);
  sizes.recv = blocks_of(layout_.recv, modes, element_, sizes.recv_bytes);
  return sizes;
}

std::span<std::byte> CodedBlocks::scratch(const PeerBlock& block) {
  const std::size_t bytes = elements_of(block) * bytes_of(element_);
  if (scratch_.size() < bytes) {
    scratch_.resize(bytes);
  }
  return std::span(scratch_).first(bytes);
}

void CodedBlocks::encode(std::span<const WireMode> modes, std::span<const std::byte> tensor,
                         ExchangeMemory* memory, std::span<std::byte> buffer, Loss* loss) {
  const Sizes places = sizes(modes);
  for (std::size_t peer = 0; peer < modes.size(); ++peer) {
    const PeerBlock& block = layout_.send[peer];
    if (block.elements() == 0) {
      continue;
    }
    const std::span<std::byte> code = buffer.subspan(places.send[peer].offset, places.send[peer].bytes);
    BlockMemory remembered = memory != nullptr ? memory->sent_to(peer) : BlockMemory{};
    const bool remembers = !remembered.reference.value.empty();
    if (!remembers && modes[peer].is_exact()) {
      pack(std::span(&block, 1), bytes_of(element_), tensor, code);
      continue;
    }
    const std::span<std::byte> rows = scratch(block);
    pack(std::span(&block, 1), bytes_of(element_), tensor, rows);
    BlockCodec(modes[peer], element_)
        .encode(block.rows(), block.row_elements, rows, remembers ? &remembered : nullptr, code);
    if (loss != nullptr && remembers) {
      add_loss(rows, element_, remembered.reference.value, *loss);
    }
  }
}

void CodedBlocks::decode(std::span<const WireMode> modes, std::span<const std::byte> buffer,
                         ExchangeMemory* memory, std::span<std::byte> tensor) {
  const Sizes places = sizes(modes);
  for (std::size_t peer = 0; peer < modes.size(); ++peer) {
    const PeerBlock& block = layout_.recv[peer];
    if (block.elements() == 0) {
      continue;
    }
    const std::span<const std::byte> code = buffer.subspan(places.recv[peer].offset, places.recv[peer].bytes);
    BlockMemory remembered = memory != nullptr ? memory->received_from(peer) : BlockMemory{};
    const bool remembers = !remembered.reference.value.empty();
    if (!remembers && modes[peer].is_exact()) {
      unpack(std::span(&block, 1), bytes_of(element_), code, tensor);
      continue;
    }
    const std::span<std::byte> rows = scratch(block);
    BlockCodec(modes[peer], element_)
        .decode(block.rows(), block.row_elements, code, remembers ? &remembered : nullptr, rows);
    unpack(std::span(&block, 1), bytes_of(element_), rows, tensor);
  }
}

}  // namespace dit
