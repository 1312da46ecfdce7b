#include "run/shm_exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "run/shm_layout.hpp"
#include "transport/transport.hpp"

namespace tapa {

using namespace shm_layout;

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

void ShmExchange::reserve(std::size_t members) {
  static_cast<void>(TransportError::no_memory());
  for (auto* const numbers : {&pending_, &shown_, &sending_, &readers_, &refused_}) numbers->reserve(members);
  for (auto* const sizes : {&got_, &pair_sent_, &refused_bytes_}) sizes->reserve(members);
  stays_.reserve(members);
  sent_room_.reserve(members);
  offered_.reserve(members);
  given_.reserve(members);  // the last one, by which begin() knows
}

void ShmExchange::begin_common(ShmBuffers& buffers) {
  if (given_.capacity() < buffers.members()) reserve(buffers.members());
  buffers_ = &buffers;
  first_ = buffers.round() + 1;
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
  got_.assign(buffers.members(), 0);
  uniform_ = true;
  packer_ = nullptr;
  send_base_ = send;
  recv_base_ = recv;
  bytes_ = bytes;
  slots_ = buffers.equal_in_slots(bytes);
  piece_ = std::max<std::size_t>(1, uniform_piece(buffers, bytes));
  own_rounds_ = static_cast<std::uint32_t>(std::max<std::size_t>(1, (bytes + piece_ - 1) / piece_));
  blocks_at_ = uniform_at((buffers.members() - 1) * piece_);
  own_direct_ = true;
  overlap_ = send == recv;
  if (overlap_) own_flags_ = kOverwrites;
  apart_ = overlap_ ? std::nullopt : buffers.stays(send, bytes, buffers.members());
  if (apart_) own_rounds_ = 1;
}

void ShmExchange::begin(ShmBuffers& buffers, const ShmSide& send, const ShmSide& recv, BlockPacker* packer,
                        bool overlap, Compare compare, bool known) {
  begin_common(buffers);
  uniform_ = false;
  overlap_ = overlap;
  packer_ = packer;
  send_ = send.blocks;
  recv_ = recv.blocks;
  if (packer != nullptr) sent_room_.assign(buffers.members(), nullptr);
  const ShmBlock& from = send_[buffers.self()];
  const ShmBlock& to = recv_[buffers.self()];
  const bool packed = from.bytes > 0 && (from.data == nullptr || to.data == nullptr);
  own_direct_ = from.bytes == to.bytes && !(packed && overlap);
  known_ = known && compare == Compare::nothing;
  by_pairs_ = known_ && buffers.pairs().chosen();
  if (by_pairs_) return begin_pairs(send, recv);
  got_.assign(buffers.members(), 0);
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
    if (send_[m].bytes == 0 && !send_[m].announced) continue;
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
  own_pairs_ = all_pairs_ = buffers_->pairs().reported(messages);
  if (rooms <= room) return;
  std::size_t each = room;  // but for what rounding up may add
  for (std::size_t m = 0; m < members; ++m) {
    if (send_[m].bytes > 0 && !stays_[m] && !in_slot(m) && (m != buffers_->self() || !own_direct_))
      each -= std::max(grain(m), kLine);
  }
  own_rounds_ = static_cast<std::uint32_t>((bytes + each - 1) / each);
}

void ShmExchange::fail(const TransportError& failure) noexcept {
  if (!failure_) failure_ = failure;
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

/// The own blocks of the first round are shown.
void ShmExchange::begin_rounds() {
  rounds_ = own_rounds_;
  if ((own_flags_ & kGivesUp) != 0) poor_ = buffers_->self();
  overwritten_ = (own_flags_ & kOverwrites) != 0;
  if (own_direct_ && !given_up()) copy_own();
}

/// Everybody has everything.
void ShmExchange::end_rounds() {
  if (uniform_) {
    buffers_->fetch_next(slots_ ? 0 : buffers_->members() * bytes_);
  } else {
    if (known_) buffers_->pairs().note_tables(all_pairs_, total_);
    buffers_->fetch_next(0);
    if (packer_ != nullptr) packer_->release_rooms();
  }
}

bool ShmExchange::advance() {
  while (stage_ != Stage::done) {
    if (by_pairs_) {
      if (!advance_pairs()) return false;
    } else if (stage_ == Stage::write) {
      write_round();
      buffers_->publish();
      if (at_ == 0) begin_rounds();
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
      end_rounds();
      stage_ = Stage::done;
    }
  }
  if (given_up() && !failure_)
    fail_with(
        [&] { return TransportError("rank " + std::to_string(*poor_) + " has no memory for its blocks"); });
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
