// Blocks of the shared-memory exchange that are not in one piece: how they are packed and unpacked.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include "run/shm_exchange.hpp"
#include "run/shm_layout.hpp"
#include "transport/transport.hpp"

namespace tapa {

using namespace shm_layout;

// A datatype that MPI refuses to pack must not keep the others waiting.
template <class Step>
bool ShmExchange::packing(const Step& step) {
  try {
    step();
    return true;
  } catch (const TransportError& e) {
    fail(e);
  } catch (const std::bad_alloc&) {
    fail(TransportError::no_memory());
  } catch (const std::exception& e) {
    fail_with([&] { return TransportError(e.what()); });
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

/// A block that is not in one piece, in memory of its own; packed now unless it was. Null: it could not be.
const std::byte* ShmExchange::packed(std::size_t member) {
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

/// Puts the next part of a block where it belongs. Parts need not end where the units of its datatype do:
/// what has come of a unit waits for the rest of it.
void ShmExchange::unpack(std::size_t member, std::size_t got, const std::byte* from, std::size_t bytes,
                         std::size_t whole) {
  const std::size_t unit = recv_[member].unit == 0 ? whole : std::min(recv_[member].unit, whole);
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

}  // namespace tapa
