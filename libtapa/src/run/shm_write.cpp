// A round of the shared-memory exchange as its sender writes it: header, table, blocks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "run/copy_block.hpp"
#include "run/shm_exchange.hpp"
#include "run/shm_layout.hpp"

namespace tapa {

using namespace shm_layout;

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
        slots_ ? buffers_->slot(self, m, buffers_->round() + 1, bytes_) : to + place_of(m, self) * piece_;
    std::memcpy(piece, send_base_ + m * bytes_ + begin, count);
  }
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
  entry.whole = bytes == 0 && send_[m].announced ? kEmpty : bytes;
  entry.bytes = 0;
  entry.place = {};
  if (bytes == 0 || (m == buffers_->self() && own_direct_)) return;
  if ((own_flags_ & kGivesUp) != 0) {
    entry.whole = kNotPacked;
  } else if (stays_[m]) {
    write_place(m, entry);
  } else {
    write_part(m, buffer, next);
  }
}

/// Of a block that stays here.
void ShmExchange::write_place(std::size_t m, BlockEntry& entry) {
  if (at_ > 0) return;
  const std::byte* const block = sent(m);
  if (block == nullptr) {
    entry.whole = kNotPacked;
    return;
  }
  entry.bytes = send_[m].bytes;
  entry.place = {reinterpret_cast<std::uintptr_t>(block), stays_[m]->kind};
  readers_.push_back(static_cast<std::uint32_t>(m));
}

/// Of one that travels: what comes in this round.
void ShmExchange::write_part(std::size_t m, std::byte* buffer, std::size_t& next) {
  const std::size_t bytes = send_[m].bytes;
  BlockEntry& entry = entry_of(buffer, m);
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
  std::byte* const to = slot ? buffers_->slot(buffers_->self(), m, buffers_->round() + 1, bytes)
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

}  // namespace tapa
