#include "transport/pair_slots.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tapa {

PairSlots::PairSlots(std::size_t self, std::vector<std::byte*> parts, std::uint64_t users)
    : self_(self),
      parts_(std::move(parts)),
      slots_(std::min(kMostSlots, std::bit_floor(kMostMembers / std::max<std::size_t>(1, parts_.size())))),
      slot_bytes_(std::max(PairLine::kRoom,
                           odd_lines(kDataBytes / kDataSlots / std::max<std::size_t>(1, parts_.size())))),
      sent_(parts_.size()),
      got_(parts_.size()) {
  // Numbers of earlier users are below it: they made fewer messages than this for each of their rounds.
  const std::uint64_t first = (users + 1) << 24;
  for (std::size_t m = 0; m < parts_.size(); ++m) {
    sent_[m] = {first, first, lines(self, m)};
    got_[m] = {first, lines(m, self), &taken(m, self)};
  }
}

bool PairSlots::look_for_room(std::size_t to, std::size_t bytes) {
  // Those of earlier users are less.
  Sent& sent = sent_[to];
  sent.taken = std::max(sent.taken, taken(self_, to).taken.load(std::memory_order_acquire));
  return has_room(sent, bytes);
}

void PairSlots::note_tables(std::uint64_t reported, std::uint64_t bytes) {
  last_total_ = bytes;
  unfit_ = std::exchange(silence_, false);
  if (reported >= kUnfit)
    barred_ = kBarred;
  else if (barred_ > 0)
    --barred_;
  const std::uint64_t members = parts_.size();
  const bool sparse = 2 * reported <= members * (members - 1);
  left_ = members >= kLeastMembers && sparse && barred_ == 0 ? kCalls : 0;
}

}  // namespace tapa
