// A round of the shared-memory exchange as its receivers read it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "run/copy_block.hpp"
#include "run/shm_exchange.hpp"
#include "run/shm_layout.hpp"
#include "transport/transport.hpp"

namespace tapa {

using namespace shm_layout;

namespace {

/// Asks for a line that is read soon.
void expect(const std::byte* line) {
  __builtin_prefetch(line);
}

std::string too_long(std::size_t member, std::size_t got, std::size_t expected) {
  return "message from rank " + std::to_string(member) + " has " + std::to_string(got) +
         " bytes, expected at most " + std::to_string(expected);
}

}  // namespace

/// A longer block than this rank expects; a shorter one is no error, as in MPI.
bool ShmExchange::refuse(std::size_t member, std::size_t whole) {
  if (whole == kNotPacked) {
    fail_with([&] {
      return TransportError("rank " + std::to_string(member) + " could not pack its block for this rank");
    });
    return true;
  }
  if (whole <= expected(member)) return false;
  fail_with([&] { return TransportError::truncation(too_long(member, whole, expected(member))); });
  return true;
}

/// Puts the next part of a block where it belongs.
void ShmExchange::deliver(std::size_t member, const std::byte* from, std::size_t bytes, std::size_t whole) {
  const std::size_t got = got_[member];
  got_[member] += bytes;
  if ((whole >= kEmpty || whole > expected(member)) && refuse(member, whole)) return;
  if (whole == kEmpty) return scatter(member, 0, 0, from);
  if (whole == 0) return note_silence(member);
  if (bytes == 0) return;
  if (std::byte* const to = place(member)) {
    copy_block(to + got, from, bytes);
  } else {
    unpack(member, got, from, bytes, whole);
  }
}

/// Nothing is received of an exchange that is given up; its sender must know that nobody reads its block.
void ShmExchange::pass_over(std::size_t member, const std::byte* buffer) {
  const auto* const header = reinterpret_cast<const BufferHeader*>(buffer);
  const std::uint64_t kind = header->form == BufferForm::apart ? BlockPlace::kPrivate
                             : header->form == BufferForm::table
                                 ? entry_of(buffer, buffers_->self()).place.kind
                                 : BlockPlace::kBuffer;
  if (kind == BlockPlace::kBuffer || kind == BlockPlace::kSlot) return;
  fetched_ = true;
  if (!tells_together()) buffers_->tell_read(member);
}

void ShmExchange::take(std::size_t member, const std::byte* buffer) {
  if (given_up()) return pass_over(member, buffer);
  const auto* const header = reinterpret_cast<const BufferHeader*>(buffer);
  const std::size_t self = buffers_->self();
  if (header->form == BufferForm::equal && uniform_ && header->bytes == bytes_ && piece_ == bytes_) {
    if (at_ == 0) copy_block(place(member), uniform_block(member, buffer), bytes_);
    return;
  }
  if (header->form == BufferForm::apart) {
    if (at_ == 0) fetch(member, {header->place.at + self * header->bytes, header->place.kind}, header->bytes);
    return;
  }
  if (header->form == BufferForm::equal) {
    const std::size_t whole = header->bytes;
    const std::size_t piece = uniform_piece(*buffers_, whole);
    const std::size_t begin = std::min(whole, at_ * piece);
    const std::byte* const blocks = buffer + uniform_at((buffers_->members() - 1) * piece);
    const std::byte* const from = buffers_->equal_in_slots(whole)
                                      ? buffers_->slot(member, self, buffers_->round(), whole)
                                      : blocks + place_of(self, member) * piece;
    deliver(member, from, std::min(piece, whole - begin), whole);
    return;
  }
  const BlockEntry& entry = entry_of(buffer, self);
  if (entry.place.kind == BlockPlace::kSlot) {
    deliver(member, buffers_->slot(member, self, buffers_->round(), entry.whole), entry.bytes, entry.whole);
  } else if (entry.place.kind != BlockPlace::kBuffer) {
    fetch(member, entry.place, entry.bytes);
  } else {
    deliver(member, buffer + entry.place.at, entry.bytes, entry.whole);
  }
}

/// Where a member whose sequence number is there is looked at next.
const std::byte* ShmExchange::first_line(std::size_t member, const std::byte* buffer) const {
  return uniform_ ? uniform_block(member, buffer) : buffer + kLine + buffers_->self() * sizeof(BlockEntry);
}

/// Where a member of an exchange of equal blocks like the own one shows its block for this rank.
inline const std::byte* ShmExchange::uniform_block(std::size_t member, const std::byte* buffer) const {
  const std::size_t self = buffers_->self();
  return slots_ ? buffers_->slot(member, self, buffers_->round(), bytes_)
                : buffer + blocks_at_ + place_of(self, member) * piece_;
}

/// Asks for the blocks that do not lie in the tables.
void ShmExchange::expect_blocks() const {
  for (const std::uint32_t m : shown_) {
    const BufferHeader* const header = buffers_->buffer(m, buffers_->round());
    if (header->form != BufferForm::table) continue;
    const auto* const buffer = reinterpret_cast<const std::byte*>(header);
    const BlockEntry& entry = entry_of(buffer, buffers_->self());
    if (entry.place.kind == BlockPlace::kBuffer) expect(buffer + entry.place.at);
    if (entry.place.kind == BlockPlace::kSlot)
      expect(buffers_->slot(m, buffers_->self(), buffers_->round(), entry.whole));
  }
}

/// What a member's header tells; false when nothing more is to be read of its round.
bool ShmExchange::note_header(std::size_t member, const BufferHeader& header) {
  const bool table = header.form == BufferForm::table;
  if (at_ == 0) {
    rounds_ = std::max(rounds_, header.rounds & ~(kGivesUp | kOverwrites));
    if ((header.rounds & kGivesUp) != 0) poor_ = member;
    overwritten_ = overwritten_ || (header.rounds & kOverwrites) != 0;
    if (uniform_ || compare_ == Compare::sums) {
      const std::uint64_t own = uniform_ ? bytes_ * buffers_->members() : own_total_;
      differ_ = differ_ || own != (table ? header.bytes : header.bytes * buffers_->members());
    }
    if (table && member != buffers_->self()) {
      total_ += header.bytes;
      sizes_ += header.sizes;
      all_pairs_ += header.pairs;
    }
  }
  if (!table || (header.filled & bit_of(buffers_->self())) != 0) return true;
  note_silence(member);
  return false;
}

/// A member has sent nothing.
void ShmExchange::note_silence(std::size_t member) const {
  if (known_ && recv_[member].bytes > 0) buffers_->pairs().note_silence();
}

/// Whether a member shows equal blocks just as this rank does: its header tells nothing new.
inline bool ShmExchange::is_like_own(const BufferHeader& header) const {
  return uniform_ && header.form == BufferForm::equal && header.bytes == bytes_ &&
         header.rounds == (own_rounds_ | own_flags_);
}

/// Reads what has arrived; true when everybody's round was read. Lines of all that have arrived are asked for
/// before the first of them is read, so that their ways overlap.
bool ShmExchange::read_round() {
  const std::uint64_t round = buffers_->round();
  const auto buffer = [&](std::uint32_t m) {
    return reinterpret_cast<const std::byte*>(buffers_->buffer(m, round));
  };
  std::size_t kept = 0;
  bool plain = at_ == 0 && piece_ == bytes_ && !given_up();  // as a rule: equal blocks in one round
  shown_.clear();
  for (const std::uint32_t m : pending_) {
    const BufferHeader& header = *buffers_->buffer(m, round);
    if (header.sequence.load(std::memory_order_acquire) != round) {
      pending_[kept++] = m;
      continue;
    }
    const bool like_own = is_like_own(header);
    if (!like_own && !note_header(m, header)) continue;
    plain = plain && like_own;
    shown_.push_back(m);
    expect(first_line(m, buffer(m)));
  }
  pending_.resize(kept);
  if (!uniform_) expect_blocks();
  for (const std::uint32_t m : shown_) {
    if (plain) {
      copy_block(place(m), uniform_block(m, buffer(m)), bytes_);
    } else {
      take(m, buffer(m));
    }
  }
  if (!offered_.empty()) move_offered();
  if (!refused_.empty()) take_given();
  return kept == 0 && offered_.empty() && refused_.empty();
}

void ShmExchange::await_round() {
  pending_ = buffers_->order();
  if (!own_direct_) pending_.push_back(static_cast<std::uint32_t>(buffers_->self()));
}

}  // namespace tapa
