#include "run/shm_exchange.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

#include "run/shm_layout.hpp"
#include "transport/transport.hpp"

namespace tapa {

using namespace shm_layout;

namespace {

/// Asks for a line that is read soon.
void expect(const std::byte* line) {
  __builtin_prefetch(line);
}

/// Of short blocks, calling a function to copy them takes longer than the copy.
void copy_block(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto ends = [&](auto part) {  // two parts that may overlap
    std::memcpy(&part, from, sizeof part);
    auto last = part;
    std::memcpy(&last, from + bytes - sizeof part, sizeof part);
    std::memcpy(to, &part, sizeof part);
    std::memcpy(to + bytes - sizeof part, &last, sizeof part);
  };
  if (bytes > 64 || bytes < 8) {
    std::memcpy(to, from, bytes);
  } else if (bytes > 32) {
    ends(std::array<std::byte, 32>{});
  } else if (bytes > 16) {
    ends(std::array<std::byte, 16>{});
  } else {
    ends(std::uint64_t{});
  }
}

std::string too_long(std::size_t member, std::size_t got, std::size_t expected) {
  return "message from rank " + std::to_string(member) + " has " + std::to_string(got) +
         " bytes, expected at most " + std::to_string(expected);
}

}  // namespace

bool ShmExchange::fits(const ShmBuffers& buffers, std::size_t bytes) {
  return !buffers.always_stays(bytes) && uniform_piece(buffers, bytes) == bytes;
}

bool ShmExchange::fits(const ShmBuffers& buffers, std::span<const ShmBlock> send) {
  std::size_t total = table_bytes(buffers.members());
  for (std::size_t m = 0; m < send.size(); ++m) {
    const std::size_t bytes = send[m].bytes;
    if (buffers.always_stays(bytes)) return false;
    if (buffers.pairs().chosen() && bytes > buffers.pairs().slot_bytes()) return false;
    if (m == buffers.self() || !buffers.in_slot(bytes)) total += room_of(bytes);
  }
  return total <= ShmBuffers::kBufferBytes;
}

void ShmExchange::begin_common(ShmBuffers& buffers) {
  buffers_ = &buffers;
  got_.assign(buffers.members(), 0);
  total_ = own_sizes_ = sizes_ = 0;
  differ_ = false;
  compare_ = Compare::nothing;
  known_ = by_pairs_ = false;
  stage_ = Stage::write;
  own_rounds_ = 1;
  own_flags_ = 0;
  poor_.reset();
  overwritten_ = false;
  at_ = 0;
  readers_.clear();
  offered_.clear();
  refused_.clear();
  given_.clear();
  fetched_ = false;
  failure_.reset();
}

void ShmExchange::begin(ShmBuffers& buffers, const std::byte* send, std::byte* recv, std::size_t bytes) {
  begin_common(buffers);
  uniform_ = true;
  packer_ = nullptr;
  send_base_ = send;
  recv_base_ = recv;
  bytes_ = bytes;
  slots_ = uniform_in_slots(buffers, bytes);
  piece_ = std::max<std::size_t>(1, uniform_piece(buffers, bytes));
  own_rounds_ = static_cast<std::uint32_t>(std::max<std::size_t>(1, (bytes + piece_ - 1) / piece_));
  blocks_at_ = uniform_at((buffers.members() - 1) * piece_);
  own_direct_ = true;
  overlap_ = send == recv;
  if (overlap_) own_flags_ = kOverwrites;
  apart_ = overlap_ ? std::nullopt : buffers.stays(send, bytes, buffers.members());
  if (apart_) own_rounds_ = 1;
}

void ShmExchange::begin(ShmBuffers& buffers, std::span<const ShmBlock> send, std::span<const ShmBlock> recv,
                        BlockPacker* packer, bool overlap, Compare compare, bool known) {
  begin_common(buffers);
  uniform_ = false;
  overlap_ = overlap;
  packer_ = packer;
  send_ = send;
  recv_ = recv;
  if (packer != nullptr) sent_room_.assign(buffers.members(), nullptr);
  const ShmBlock& from = send[buffers.self()];
  const ShmBlock& to = recv[buffers.self()];
  const bool packed = from.bytes > 0 && (from.data == nullptr || to.data == nullptr);
  own_direct_ = from.bytes == to.bytes && !(packed && overlap);
  known_ = known && compare == Compare::nothing;
  by_pairs_ = known_ && buffers.pairs().chosen();
  if (by_pairs_) return begin_pairs();
  plan_table();
  total_ = own_total_;
  compare_ = compare;
  if (compare == Compare::blocks) compare_sizes();
}

/// A number for each end of each block: summed over all ranks they are 0 when both ends of all blocks are
/// alike (but for one case in 2^64).
void ShmExchange::compare_sizes() {
  const auto number = [](std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
    std::uint64_t value = (from << 32 | to) * 0x9e3779b97f4a7c15 + bytes;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    return value ^ value >> 27;
  };
  const std::size_t self = buffers_->self();
  for (std::size_t m = 0; m < buffers_->members(); ++m)
    own_sizes_ += number(self, m, send_[m].bytes) - number(m, self, recv_[m].bytes);
  sizes_ = own_sizes_;
}

/// Bytes of which each part of a block is a multiple when it travels in parts through the buffer. 0: it must
/// be packed as a whole before.
std::size_t ShmExchange::grain(std::size_t member) const {
  const ShmBlock& block = send_[member];
  if (block.data != nullptr) return kLine;
  const std::size_t grain = block.unit == 0 ? 0 : std::lcm(block.unit, kLine);
  return grain * buffers_->members() <= ShmBuffers::kBufferBytes / 4 ? grain : 0;
}

/// The place of a block that stays with this rank. Of those that are packed, only such do as cannot be packed
/// part by part: a part in the buffer is read while it is in the cache.
std::optional<BlockPlace> ShmExchange::stays(std::size_t member) const {
  const ShmBlock& block = send_[member];
  if (member == buffers_->self() || overlap_ || block.bytes == 0) return std::nullopt;
  if (block.data != nullptr) return buffers_->stays(block.data, block.bytes);
  if (!buffers_->always_stays(block.bytes) || grain(member) != 0) return std::nullopt;
  return BlockPlace{0, BlockPlace::kPrivate};
}

/// Whether a block that does not stay goes to its receiver's slot.
bool ShmExchange::in_slot(std::size_t member) const {
  return member != buffers_->self() && buffers_->in_slot(send_[member].bytes);
}

/// How many rounds the blocks that go through the buffer need.
void ShmExchange::plan_table() {
  const std::size_t members = buffers_->members();
  const std::size_t room = ShmBuffers::kBufferBytes - table_bytes(members);
  std::size_t rooms = 0;
  std::size_t bytes = 0;
  stays_.resize(members);
  filled_ = 0;
  own_total_ = 0;
  std::uint64_t messages = 0;
  for (std::size_t m = 0; m < members; ++m) {
    if (send_[m].bytes == 0 && !send_[m].told) continue;
    own_total_ += send_[m].bytes;
    stays_[m] = stays(m);
    if (m == buffers_->self() && own_direct_) continue;
    filled_ |= bit_of(m);
    ++messages;
    if (known_ && send_[m].bytes > buffers_->pairs().slot_bytes()) buffers_->pairs().note_long();
    if (stays_[m] || in_slot(m)) continue;
    rooms += room_of(send_[m].bytes);
    bytes += send_[m].bytes;
  }
  own_pairs_ = told_pairs_ = buffers_->pairs().told(messages);
  if (rooms <= room) return;
  std::size_t each = room;  // but for what rounding up may add
  for (std::size_t m = 0; m < members; ++m) {
    if (send_[m].bytes > 0 && !stays_[m] && !in_slot(m) && (m != buffers_->self() || !own_direct_))
      each -= std::max(grain(m), kLine);
  }
  own_rounds_ = static_cast<std::uint32_t>((bytes + each - 1) / each);
}

// A datatype that MPI refuses to pack must not keep the others waiting.
template <class Step>
bool ShmExchange::packing(const Step& step) {
  try {
    step();
    return true;
  } catch (const TransportError& e) {
    fail(e);
  } catch (const std::exception& e) {
    fail(TransportError(e.what()));
  }
  return false;
}

/// Whether a block that is sent cannot be packed part by part although it may travel so.
bool ShmExchange::is_packed_whole(std::size_t m) const {
  if (send_[m].data != nullptr || send_[m].bytes == 0 || in_slot(m)) return false;
  return stays_[m].has_value() || (own_rounds_ > 1 && grain(m) == 0);
}

// What is received in other parts than it is unpacked in needs less than a block as a rule, and short blocks
// need little.
void ShmExchange::take_rooms(bool overwrites) {
  constexpr std::size_t much = std::size_t{64} << 10;
  if (overwrites) own_flags_ |= kOverwrites;
  if (by_pairs_) return;
  const std::size_t self = buffers_->self();
  const bool there = packing([&] {
    packer_->prepare_copy(self);
    for (std::size_t m = 0; m < buffers_->members(); ++m) {
      if (m == self && own_direct_) continue;
      if (is_packed_whole(m)) packer_->room(m, true, send_[m].bytes);
      const std::size_t unit = recv_[m].unit == 0 ? recv_[m].bytes : std::min(recv_[m].unit, recv_[m].bytes);
      if (recv_[m].data == nullptr && unit > much) packer_->room(m, false, unit);
    }
  });
  if (!there) own_flags_ |= kGivesUp;
}

/// The block for this rank itself, unless it must take the way of all.
void ShmExchange::copy_own() {
  const std::size_t self = buffers_->self();
  if (expected(self) == 0) return;
  std::byte* const to = place(self);
  if (!uniform_ && (to == nullptr || send_[self].data == nullptr))
    return static_cast<void>(packing([&] { packer_->copy(self); }));
  const std::byte* const from = uniform_ ? send_base_ + self * bytes_ : send_[self].data;
  if (to != from) std::memcpy(to, from, expected(self));
}

void ShmExchange::write_round() {
  BufferHeader* const header = buffers_->buffer(buffers_->self(), buffers_->round() + 1);
  auto* const buffer = reinterpret_cast<std::byte*>(header);
  header->rounds = own_rounds_ | own_flags_;
  header->form = !uniform_ ? BufferForm::table : apart_ ? BufferForm::apart : BufferForm::equal;
  header->bytes = uniform_ ? bytes_ : own_total_;
  if (!uniform_) {
    write_table(buffer);
  } else if (!apart_) {
    write_uniform(buffer);
  } else {
    header->place = *apart_;
    if (at_ > 0) return;
    for (std::size_t m = 0; m < buffers_->members(); ++m) {
      if (m != buffers_->self()) readers_.push_back(static_cast<std::uint32_t>(m));
    }
  }
}

void ShmExchange::write_uniform(std::byte* buffer) {
  if (at_ >= own_rounds_) return;  // others need more rounds
  const std::size_t self = buffers_->self();
  const std::size_t others = buffers_->members() - 1;
  std::byte* const to = buffer + blocks_at_;
  if (piece_ == bytes_ && !slots_) {
    std::memcpy(to, send_base_, self * bytes_);
    std::memcpy(to + self * bytes_, send_base_ + (self + 1) * bytes_, (others - self) * bytes_);
    return;
  }
  const std::size_t begin = std::min(bytes_, at_ * piece_);
  const std::size_t count = std::min(piece_, bytes_ - begin);
  for (std::size_t m = 0; m <= others; ++m) {
    if (m == self) continue;
    std::byte* const piece =
        slots_ ? buffers_->slot(self, m, buffers_->round() + 1) : to + place_of(m, self) * piece_;
    std::memcpy(piece, send_base_ + m * bytes_ + begin, count);
  }
}

/// The block in one piece of memory; packed now unless it was. Null: it could not be.
const std::byte* ShmExchange::sent(std::size_t member) {
  if (send_[member].data != nullptr) return send_[member].data;
  std::byte*& room = sent_room_[member];
  if (room == nullptr) {
    packing([&] {
      std::byte* const memory = packer_->room(member, true, send_[member].bytes);
      packer_->gather(member, 0, send_[member].bytes, memory);
      room = memory;
    });
  }
  return room;
}

void ShmExchange::write_table(std::byte* buffer) {
  reinterpret_cast<BufferHeader*>(buffer)->filled = filled_;
  reinterpret_cast<BufferHeader*>(buffer)->sizes = own_sizes_;
  reinterpret_cast<BufferHeader*>(buffer)->pairs = own_pairs_;
  std::size_t next = table_bytes(buffers_->members());
  for (std::size_t m = 0; m < buffers_->members(); ++m) {
    if ((filled_ & bit_of(m)) != 0) write_entry(m, buffer, next);  // the others are not looked at
  }
}

/// What a member finds in this round; its block, or the part of it, goes to `next`.
void ShmExchange::write_entry(std::size_t m, std::byte* buffer, std::size_t& next) {
  const std::size_t bytes = send_[m].bytes;
  BlockEntry& entry = entry_of(buffer, m);
  entry.whole = bytes == 0 && send_[m].told ? kEmpty : bytes;
  entry.bytes = 0;
  entry.place = {};
  if (bytes == 0 || (m == buffers_->self() && own_direct_)) return;
  if ((own_flags_ & kGivesUp) != 0) {
    entry.whole = kNotPacked;
    return;
  }
  if (const auto& place = stays_[m]) {
    if (at_ > 0) return;
    const std::byte* const block = sent(m);
    if (block == nullptr) {
      entry.whole = kNotPacked;
      return;
    }
    entry.bytes = bytes;
    entry.place = {reinterpret_cast<std::uintptr_t>(block), place->kind};
    readers_.push_back(static_cast<std::uint32_t>(m));
    return;
  }
  std::size_t piece = bytes;
  bool gathers = send_[m].data == nullptr;
  const bool slot = in_slot(m);
  if (own_rounds_ > 1 && !slot) {
    const std::size_t unit = grain(m);
    piece = up((bytes + own_rounds_ - 1) / own_rounds_, std::max(unit, kLine));
    gathers = gathers && unit != 0;
  }
  const std::size_t begin = std::min(bytes, at_ * piece);
  entry.bytes = std::min(piece, bytes - begin);
  if (entry.bytes == 0) return;
  std::byte* const to = slot                      ? buffers_->slot(buffers_->self(), m, buffers_->round() + 1)
                        : entry.bytes <= kInEntry ? entry.block.data()
                                                  : buffer + next;
  entry.place = slot ? BlockPlace{0, BlockPlace::kSlot} : BlockPlace{static_cast<std::uint64_t>(to - buffer)};
  if (gathers) {
    if (!gather(m, begin, entry.bytes, to)) entry.whole = kNotPacked;
  } else if (const std::byte* const block = sent(m)) {
    copy_block(to, block + begin, entry.bytes);
  } else {
    entry.whole = kNotPacked;
  }
  if (!slot) next += room_of(entry.bytes);
}

void ShmExchange::fail(const TransportError& failure) {
  if (!failure_) failure_ = failure;
}

bool ShmExchange::gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to) {
  return packing([&] { packer_->gather(member, begin, bytes, to); });
}

void ShmExchange::scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) {
  packing([&] { packer_->scatter(member, begin, bytes, from); });
}

/// Memory for a block that must be put together; null when there is none.
std::byte* ShmExchange::received_room(std::size_t member, std::size_t bytes) {
  std::byte* room = nullptr;
  packing([&] { room = packer_->room(member, false, bytes); });
  return room;
}

/// A longer block than this rank expects; a shorter one is no error, as in MPI.
bool ShmExchange::refuse(std::size_t member, std::size_t whole) {
  if (whole == kNotPacked) {
    fail(TransportError("rank " + std::to_string(member) + " could not pack its block for this rank"));
    return true;
  }
  if (whole <= expected(member)) return false;
  fail(TransportError::truncation(too_long(member, whole, expected(member))));
  return true;
}

/// Puts the next part of a block where it belongs.
void ShmExchange::deliver(std::size_t member, const std::byte* from, std::size_t bytes, std::size_t whole) {
  if (refuse(member, whole)) return;
  if (whole == kEmpty) return scatter(member, 0, 0, from);
  if (bytes == 0) return;
  if (std::byte* const to = place(member)) {
    copy_block(to + got_[member], from, bytes);
  } else {
    unpack(member, from, bytes, whole);
  }
  got_[member] += bytes;
}

/// The same when the block is not in one piece there. Parts need not end where the units of its datatype do:
/// what has come of a unit waits for the rest of it.
void ShmExchange::unpack(std::size_t member, const std::byte* from, std::size_t bytes, std::size_t whole) {
  const std::size_t unit = recv_[member].unit == 0 ? whole : std::min(recv_[member].unit, whole);
  const std::size_t got = got_[member];
  const bool last = got + bytes == whole;
  std::size_t held = got % unit;
  const std::size_t more = held == 0 ? 0 : std::min(bytes, unit - held);
  const std::size_t at_once = last ? bytes - more : (bytes - more) / unit * unit;
  const std::size_t rest = bytes - more - at_once;
  std::byte* const room = held + rest > 0 ? received_room(member, unit) : nullptr;
  if (held + rest > 0 && room == nullptr) return;
  if (more > 0) {
    std::memcpy(room + held, from, more);
    held += more;
    if (held == unit || last) scatter(member, got + more - held, held, room);
  }
  if (at_once > 0) scatter(member, got + more, at_once, from + more);
  if (rest > 0) std::memcpy(room, from + more + at_once, rest);
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
    // As a rule: all of equal blocks in one round.
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
    const std::byte* const from = uniform_in_slots(*buffers_, whole)
                                      ? buffers_->slot(member, self, buffers_->round())
                                      : blocks + place_of(self, member) * piece;
    deliver(member, from, std::min(piece, whole - begin), whole);
    return;
  }
  const BlockEntry& entry = entry_of(buffer, self);
  if (entry.place.kind == BlockPlace::kSlot) {
    deliver(member, buffers_->slot(member, self, buffers_->round()), entry.bytes, entry.whole);
  } else if (entry.place.kind != BlockPlace::kBuffer) {
    fetch(member, entry.place, entry.bytes);
  } else {
    deliver(member, buffer + entry.place.at, entry.bytes, entry.whole);
  }
}

/// Where a member whose sequence number is there is looked at next.
const std::byte* ShmExchange::first_line(std::size_t member) const {
  const auto* const buffer = reinterpret_cast<const std::byte*>(buffers_->buffer(member, buffers_->round()));
  return uniform_ ? uniform_block(member, buffer) : buffer + kLine + buffers_->self() * sizeof(BlockEntry);
}

/// Where a member of an exchange of equal blocks like the own one shows its block for this rank.
const std::byte* ShmExchange::uniform_block(std::size_t member, const std::byte* buffer) const {
  const std::size_t self = buffers_->self();
  return slots_ ? buffers_->slot(member, self, buffers_->round())
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
    if (entry.place.kind == BlockPlace::kSlot) expect(buffers_->slot(m, buffers_->self(), buffers_->round()));
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
      told_pairs_ += header.pairs;
    }
  }
  return !table || (header.filled & bit_of(buffers_->self())) != 0;
}

/// Reads what has arrived; true when everybody's round was read. Lines of all that have arrived are asked for
/// before the first of them is read, so that their ways overlap.
bool ShmExchange::read_round() {
  const std::uint64_t round = buffers_->round();
  std::size_t kept = 0;
  shown_.clear();
  for (const std::uint32_t m : pending_) {
    const BufferHeader& header = *buffers_->buffer(m, round);
    if (header.sequence.load(std::memory_order_acquire) != round) {
      pending_[kept++] = m;
    } else if (note_header(m, header)) {
      shown_.push_back(m);
      expect(first_line(m));
    }
  }
  pending_.resize(kept);
  if (!uniform_) expect_blocks();
  for (const std::uint32_t m : shown_)
    take(m, reinterpret_cast<const std::byte*>(buffers_->buffer(m, round)));
  if (!offered_.empty()) move_offered();
  if (!refused_.empty()) take_given();
  return kept == 0 && offered_.empty() && refused_.empty();
}

void ShmExchange::await_round() {
  pending_ = buffers_->order();
  if (!own_direct_) pending_.push_back(static_cast<std::uint32_t>(buffers_->self()));
}

/// Whether nobody reads from this rank's memory any more.
bool ShmExchange::drained() {
  std::erase_if(readers_, [this](std::uint32_t m) { return buffers_->was_read(m, first_); });
  return readers_.empty();
}

/// In an exchange of equal blocks all have about the same to read.
bool ShmExchange::tells_together() const {
  return uniform_ && buffers_->tells_together();
}

bool ShmExchange::advance() {
  while (stage_ != Stage::done) {
    if (by_pairs_) {
      if (!advance_pairs()) return false;
    } else if (stage_ == Stage::write) {
      write_round();
      buffers_->publish();
      if (at_ == 0) {
        first_ = buffers_->round();
        rounds_ = own_rounds_;
        if ((own_flags_ & kGivesUp) != 0) poor_ = buffers_->self();
        overwritten_ = (own_flags_ & kOverwrites) != 0;
        if (own_direct_ && !given_up()) copy_own();
      }
      await_round();
      stage_ = Stage::read;
    } else if (stage_ == Stage::read) {
      if (!read_round()) {
        serve_readers();
        return false;
      }
      if (at_ == 0 && fetched_ && tells_together()) buffers_->tell_all_read();
      stage_ = ++at_ < rounds_ && !given_up() ? Stage::write : Stage::drain;
    } else {
      if (!drained()) {
        serve_readers();
        return false;
      }
      if (uniform_) {
        buffers_->fetch_next(slots_ ? 0 : buffers_->members() * bytes_);
      } else {
        if (known_) buffers_->pairs().note_tables(told_pairs_, total_);
        buffers_->fetch_next(0);
        if (packer_ != nullptr) packer_->release_rooms();
      }
      stage_ = Stage::done;
    }
  }
  if (given_up() && !failure_)
    fail(TransportError("rank " + std::to_string(*poor_) + " has no memory for its blocks"));
  if (!failure_) return true;
  throw *std::exchange(failure_, std::nullopt);
}

std::vector<std::size_t> ShmExchange::missing(std::size_t limit) const {
  std::vector<std::uint32_t> moving;
  for (const Offered& block : offered_) moving.push_back(block.member);
  const auto& list = by_pairs_ && pending_.empty() ? sending_
                     : stage_ == Stage::drain      ? readers_
                     : !pending_.empty()           ? pending_
                     : !moving.empty()             ? moving
                                                   : refused_;
  return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(std::min(limit, list.size()))};
}

}  // namespace tapa
