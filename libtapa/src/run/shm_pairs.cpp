// Calls by pairs: ranks touch nothing of those to which they send nothing and from which they expect nothing.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "run/copy_block.hpp"
#include "run/shm_exchange.hpp"
#include "run/shm_layout.hpp"
#include "transport/transport.hpp"

namespace tapa {

using namespace shm_layout;

/// The other members whose blocks have bytes.
void ShmExchange::list_others(const ShmSide& side, std::vector<std::uint32_t>& members) const {
  if (side.filled != nullptr) {
    members = *side.filled;
    return;
  }
  members.clear();
  for (const std::uint32_t m : buffers_->order()) {
    if (side.blocks[m].bytes > 0) members.push_back(m);
  }
}

/// A block that is longer than a slot travels in several messages. What is for this rank itself takes the
/// same way where its two ends differ.
void ShmExchange::begin_pairs(const ShmSide& send, const ShmSide& recv) {
  PairSlots& slots = buffers_->pairs();
  call_ = slots.begin();
  pair_sent_.resize(buffers_->members());
  got_.resize(buffers_->members());
  list_others(send, sending_);
  list_others(recv, pending_);
  const auto self = static_cast<std::uint32_t>(buffers_->self());
  if (!own_direct_ && send_[self].bytes > 0) {
    sending_.push_back(self);
    pending_.push_back(self);
  }
  for (const std::uint32_t m : sending_) {
    pair_sent_[m] = 0;
    slots.expect_writing(m, send_[m].bytes);
    if (send_[m].bytes > slots.slot_bytes()) slots.note_long();
  }
  for (const std::uint32_t m : pending_) got_[m] = 0;
  total_ = slots.last_total();
  own_waits_ = own_direct_;
  stage_ = Stage::read;
}

/// Sends a block of one short message, as most are; false: it is none, or there is no room.
inline bool ShmExchange::send_short(std::uint32_t m) {
  PairSlots& slots = buffers_->pairs();
  const ShmBlock& block = send_[m];
  if (block.bytes > PairLine::kRoom || block.data == nullptr) return false;
  std::byte* const to = slots.room(m, block.bytes);
  if (to == nullptr) return false;
  copy_block(to, block.data, block.bytes);
  slots.send(m, call_, block.bytes);
  buffers_->ring(m);
  return true;
}

/// Takes such a block; false: it is none, or something is wrong.
inline bool ShmExchange::take_short(std::uint32_t m, const PairLine& line) {
  const ShmBlock& block = recv_[m];
  const std::size_t most = std::min(block.bytes, PairLine::kRoom);
  if (line.call != call_ || line.whole > most || block.data == nullptr) return false;
  copy_block(block.data, line.part.data(), line.whole);
  buffers_->pairs().take(m);
  buffers_->ring(m);
  return true;
}

/// Puts the messages of a block into its slots; false: not all yet, as one is not free. What cannot be packed
/// its receiver is told.
bool ShmExchange::send_parts(std::uint32_t m) {
  PairSlots& slots = buffers_->pairs();
  const std::size_t whole = send_[m].bytes;
  for (std::size_t done = pair_sent_[m]; done < whole; pair_sent_[m] = done) {
    const std::size_t bytes = std::min(whole - done, slots.slot_bytes());
    std::byte* const to = slots.room(m, bytes);
    if (to == nullptr) return false;
    bool packed = true;
    if (bytes == whole && send_[m].data == nullptr) {
      packed = gather(m, 0, whole, to);
    } else if (const std::byte* const block = sent(m)) {
      copy_block(to, block + done, bytes);
    } else {
      packed = false;
    }
    done = packed ? done + bytes : whole;
    slots.send(m, call_, packed ? whole : kNotPacked);
    buffers_->ring(m);
  }
  return true;
}

/// Takes what has come from a member; false: there is more to come. A message of an earlier call, in which
/// this rank expected nothing, is an error.
bool ShmExchange::take_parts(std::uint32_t m) {
  PairSlots& slots = buffers_->pairs();
  for (bool complete = false; !complete;) {
    const PairLine* const line = slots.arrived(m);
    if (line == nullptr) return false;
    const std::size_t whole = line->whole;
    if (line->call != call_) {
      fail_with([&] {
        return TransportError::truncation("rank " + std::to_string(m) + " sent " + std::to_string(whole) +
                                          " bytes in an earlier call, expected none");
      });
    } else if (whole == kNotPacked) {
      complete = refuse(m, kNotPacked);
    } else {
      const std::size_t bytes = std::min(whole - got_[m], slots.slot_bytes());
      deliver(m, slots.part(m, bytes), bytes, whole);
      complete = got_[m] == whole;
    }
    slots.take(m);
    buffers_->ring(m);
  }
  return true;
}

bool ShmExchange::advance_pairs() {
  PairSlots& slots = buffers_->pairs();
  std::erase_if(sending_, [&](std::uint32_t m) { return send_short(m) || send_parts(m); });
  const bool may_receive = !overlap_ || sending_.empty();
  if (own_waits_ && may_receive) {
    copy_own();
    own_waits_ = false;
  }
  if (may_receive) {
    for (const std::uint32_t m : pending_) slots.expect_reading(m);
    std::erase_if(pending_, [&](std::uint32_t m) {
      const PairLine* const line = slots.arrived(m);
      return line != nullptr && (take_short(m, *line) || take_parts(m));
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
