#include "transport/pair_slots.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tapa {

namespace {

/// Of each slot of data: whole lines, and an odd number of them, so that slots begin in different sets of a
/// cache.
std::size_t lines_of_slot(std::size_t bytes) {
  const std::size_t lines = bytes / 64;
  return lines % 2 == 0 ? lines - 1 : lines;
}

}  // namespace

PairSlots::PairSlots(std::size_t self, std::vector<std::byte*> parts, std::uint64_t users)
    : self_(self),
      parts_(std::move(parts)),
      first_((users + 1) << 32),
      slots_(std::min(kMostSlots, std::bit_floor(kMostMembers / std::max<std::size_t>(1, parts_.size())))),
      slot_bytes_(lines_of_slot(kDataBytes / kDataSlots / std::max<std::size_t>(1, parts_.size())) * 64),
      sent_(parts_.size()),
      got_(parts_.size()) {}

std::byte* PairSlots::room(std::size_t to, std::size_t bytes) {
  Sent& sent = sent_[to];
  if (!has_room(to, bytes)) {
    // Those of earlier users are less.
    const std::uint64_t seen = taken(self_, to).taken.load(std::memory_order_acquire);
    if (seen > first_) sent.taken = seen - first_;
    if (!has_room(to, bytes)) return nullptr;
  }
  const std::uint64_t number = sent.number + 1;
  return bytes <= PairLine::kRoom ? line(self_, to, number).part.data() : data(self_, to, number);
}

void PairSlots::send(std::size_t to, std::uint64_t call, std::uint64_t whole) {
  const std::uint64_t number = ++sent_[to].number;
  PairLine& slot = line(self_, to, number);
  slot.call = call;
  slot.whole = whole;
  slot.sequence.store(first_ + number, std::memory_order_release);
}

const PairLine* PairSlots::arrived(std::size_t from) const {
  const PairLine& slot = line(from, self_, got_[from] + 1);
  return slot.sequence.load(std::memory_order_acquire) == first_ + got_[from] + 1 ? &slot : nullptr;
}

const std::byte* PairSlots::part(std::size_t from, std::size_t bytes) const {
  const std::uint64_t number = got_[from] + 1;
  return bytes <= PairLine::kRoom ? line(from, self_, number).part.data() : data(from, self_, number);
}

void PairSlots::take(std::size_t from) {
  taken(from, self_).taken.store(first_ + ++got_[from], std::memory_order_release);
}

void PairSlots::note_tables(std::uint64_t reported, std::uint64_t bytes) {
  last_total_ = bytes;
  saw_long_ = false;
  if (reported >= kLong)
    barred_ = kBarred;
  else if (barred_ > 0)
    --barred_;
  const std::uint64_t members = parts_.size();
  const bool sparse = 4 * reported <= 3 * members * (members - 1);
  left_ = members >= kLeastMembers && sparse && barred_ == 0 ? kCalls : 0;
}

}  // namespace tapa
