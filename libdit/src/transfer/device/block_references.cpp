#include "transfer/device/block_references.hpp"

#include <algorithm>
#include <utility>

namespace dit {
namespace {

/// Lays one side's memories out from byte `at` on; returns their end. `memory` null: only that.
std::size_t place(std::vector<BlockReference>& side, std::span<const PeerBlock> blocks,
                  std::span<const std::uint8_t> remembered, const MemoryOptions& options, std::byte* memory,
                  std::size_t at) {
  side.assign(blocks.size(), {});
  const auto take = [&](std::size_t bytes) {
    return std::exchange(at, at + BlockReferences::aligned(bytes));
  };
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    const auto numbers = static_cast<std::size_t>(blocks[peer].elements());
    if (remembered[peer] == 0 || numbers == 0) {
      continue;
    }
    const auto rows = static_cast<std::size_t>(blocks[peer].rows());
    const std::size_t value = take(2 * numbers), digits = take(numbers);
    const std::size_t change = take(options.momentum != 0 ? numbers : 0);
    const std::size_t steps = take(4 * rows), scores = take(4 * rows);
    const std::size_t active = take(4 * rows), others = take(4 * rows);
    if (memory == nullptr) {
      continue;
    }
    BlockReference& of = side[peer];
    of.parts.value = reinterpret_cast<std::uint16_t*>(memory + value);
    of.parts.digits = reinterpret_cast<std::uint8_t*>(memory + digits);
    of.parts.change = options.momentum != 0 ? reinterpret_cast<std::uint8_t*>(memory + change) : nullptr;
    of.momentum = options.momentum;
    of.rows = static_cast<std::uint32_t>(rows);
    of.most_age = options.most_age;
    of.steps = reinterpret_cast<std::uint32_t*>(memory + steps);
    of.scores = reinterpret_cast<float*>(memory + scores);
    of.active = reinterpret_cast<std::uint32_t*>(memory + active);
    of.others = reinterpret_cast<std::uint32_t*>(memory + others);
  }
  return at;
}

}  // namespace

BlockReferences::BlockReferences(const ExchangeLayout& layout, const PeerFlags& remembered,
                                 const MemoryOptions& options, const TransferMemory& memory)
    : counts_ages_(options.ages), sent_bytes_(0), memory_(memory) {
  sent_bytes_ = place(sent_, layout.send, remembered.sent, options, nullptr, 0);
  const std::size_t all = place(received_, layout.recv, remembered.received, options, nullptr, sent_bytes_);
  buffer_ = memory.allocate(std::max<std::size_t>(all, 1));
  static_cast<void>(place(sent_, layout.send, remembered.sent, options, buffer_.data(), 0));
  static_cast<void>(place(received_, layout.recv, remembered.received, options, buffer_.data(), sent_bytes_));
}

void BlockReferences::keep_sent(Sent& kept, void* stream) const {
  if (kept.memory.size() < sent_bytes_) {
    kept.memory = memory_.allocate(sent_bytes_);
  }
  memory_.copy(buffer_.span().first(sent_bytes_), kept.memory.data(), stream);
  kept.ages.clear();
  for (const BlockReference& of : sent_) {
    kept.ages.push_back(of.ages);
  }
}

void BlockReferences::put_back_sent(const Sent& kept, void* stream) {
  memory_.copy(kept.memory.span().first(sent_bytes_), buffer_.data(), stream);
  for (std::size_t peer = 0; peer < sent_.size(); ++peer) {
    sent_[peer].ages = kept.ages[peer];
  }
}

void BlockReferences::forget(void* stream) {
  memory_.clear(buffer_.span(), stream);
  for (std::vector<BlockReference>* const side : {&sent_, &received_}) {
    for (BlockReference& of : *side) {
      of.ages = {};
    }
  }
}

void BlockReferences::count_ages(std::vector<std::uint64_t>& rows_by_age) const {
  for (const BlockReference& of : received_) {
    if (!counts_ages_ || of.parts.value == nullptr) {
      continue;
    }
    std::vector<std::uint32_t> steps(of.rows);
    memory_.fetch(reinterpret_cast<const std::byte*>(of.steps), std::as_writable_bytes(std::span(steps)));
    for (const std::uint32_t travelled : steps) {
      const std::size_t age = of.ages.age(travelled);
      rows_by_age.resize(std::max(rows_by_age.size(), age + 1));
      ++rows_by_age[age];
    }
  }
}

}  // namespace dit
