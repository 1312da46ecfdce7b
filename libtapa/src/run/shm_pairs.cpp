// Calls by pairs: ranks touch nothing of those to which they send nothing and from which they expect nothing.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "run/shm_exchange.hpp"
#include "run/shm_layout.hpp"
#include "transport/transport.hpp"

namespace tapa {

using namespace shm_layout;

/// A block that is longer than a slot travels in several messages. What is for this rank itself takes the
/// same way where its two ends differ.
void ShmExchange::begin_pairs() {
  PairSlots& slots = buffers_->pairs();
  call_ = slots.begin();
  pair_sent_.assign(buffers_->members(), 0);
  pair_got_.assign(buffers_->members(), 0);
  sending_.clear();
  pending_.clear();
  const auto self = static_cast<std::uint32_t>(buffers_->self());
  const auto begin = [&](std::uint32_t m, bool sends, bool receives) {
    if (sends) {
      sending_.push_back(m);
      slots.expect_writing(m, send_[m].bytes);
      if (send_[m].bytes > slots.slot_bytes()) slots.note_long();
    }
    if (receives) pending_.push_back(m);
  };
  for (const std::uint32_t m : buffers_->order()) begin(m, send_[m].bytes > 0, recv_[m].bytes > 0);
  if (!own_direct_) begin(self, send_[self].bytes > 0, send_[self].bytes > 0);
  total_ = slots.last_total();
  own_waits_ = own_direct_;
  stage_ = Stage::read;
}

/// Puts the next message of a block into its slot; false: that is not free. What cannot be packed its
/// receiver is told.
bool ShmExchange::send_part(std::uint32_t m) {
  PairSlots& slots = buffers_->pairs();
  const std::size_t whole = send_[m].bytes;
  std::size_t& done = pair_sent_[m];
  const std::size_t bytes = std::min(whole - done, slots.slot_bytes());
  std::byte* const to = slots.room(m, bytes);
  if (to == nullptr) return false;
  bool packed = true;
  if (bytes == whole && send_[m].data == nullptr) {
    packed = gather(m, 0, whole, to);
  } else if (const std::byte* const block = sent(m)) {
    std::copy_n(block + done, bytes, to);
  } else {
    packed = false;
  }
  done = packed ? done + bytes : whole;
  slots.send(m, call_, packed ? whole : kNotPacked);
  buffers_->ring(m);
  return true;
}

/// Takes the next message from a member; false: it is not there. One of an earlier call, in which this rank
/// expected nothing, is an error.
bool ShmExchange::take_part(std::uint32_t m) {
  PairSlots& slots = buffers_->pairs();
  const PairLine* const line = slots.arrived(m);
  if (line == nullptr) return false;
  std::size_t& got = pair_got_[m];
  if (line->call != call_) {
    fail_with([&] {
      return TransportError::truncation("rank " + std::to_string(m) + " sent " + std::to_string(line->whole) +
                                        " bytes in an earlier call, expected none");
    });
  } else if (line->whole == kNotPacked) {
    static_cast<void>(refuse(m, kNotPacked));
    got = kNotPacked;
  } else {
    const std::size_t whole = line->whole;
    const std::size_t bytes = std::min(whole - got, slots.slot_bytes());
    deliver(m, slots.part(m, bytes), bytes, whole);
    got = got + bytes == whole ? kNotPacked : got + bytes;
  }
  slots.take(m);
  buffers_->ring(m);
  return true;
}

bool ShmExchange::advance_pairs() {
  PairSlots& slots = buffers_->pairs();
  std::erase_if(sending_, [&](std::uint32_t m) {
    while (pair_sent_[m] < send_[m].bytes) {
      if (!send_part(m)) return false;
    }
    return true;
  });
  const bool may_receive = !overlap_ || sending_.empty();
  if (own_waits_ && may_receive) {
    copy_own();
    own_waits_ = false;
  }
  if (may_receive) {
    std::erase_if(pending_, [&](std::uint32_t m) {
      while (pair_got_[m] != kNotPacked) {
        if (!take_part(m)) return false;
      }
      return true;
    });
  }
  const bool ended = sending_.empty() && pending_.empty();
  if (!ended) {
    slots.await({call_, pending_.empty() ? sending_.front() : pending_.front()});
    return false;
  }
  slots.await({});
  if (packer_ != nullptr) packer_->release_rooms();
  stage_ = Stage::done;
  return true;
}

}  // namespace tapa
