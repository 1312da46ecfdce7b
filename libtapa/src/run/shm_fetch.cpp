// Blocks that stay in their sender's memory: how their readers get them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "run/shm_exchange.hpp"

namespace tapa {

/// A block that stays in its sender's memory.
void ShmExchange::fetch(std::size_t member, BlockPlace place, std::size_t bytes) {
  fetched_ = true;
  if (const std::byte* const seen = buffers_->view(member, place, bytes)) {
    deliver(member, seen, bytes, bytes);
  } else if (offer(member, place.at, bytes)) {
    return;
  } else if (!attach(member, place.at, bytes)) {
    ask(member, bytes);
    return;
  }
  if (!tells_together()) buffers_->tell_read(member);
}

/// The kernel did not show a block: its owner must give it.
void ShmExchange::ask(std::size_t member, std::size_t bytes) {
  refused_.push_back(static_cast<std::uint32_t>(member));
  refused_bytes_.resize(buffers_->members());
  refused_bytes_[member] = bytes;
  buffers_->ask(member);
}

/// Whether both ends move blocks. Where all have the same to read only long ones of many ranks gain by it
/// (docs/memory.md).
bool ShmExchange::shares_blocks() const {
  constexpr std::size_t equal_from = std::size_t{32} << 10;
  constexpr std::size_t equal_members = 8;
  return buffers_->shares_blocks() &&
         (!uniform_ || (bytes_ >= equal_from && buffers_->members() >= equal_members));
}

/// Lets a block be moved by its owner too. False: it is not one of those.
bool ShmExchange::offer(std::size_t member, std::uint64_t address, std::size_t bytes) {
  if (!shares_blocks() || bytes > expected(member)) return false;
  std::byte* const to = place(member);
  if (to == nullptr) return false;
  offered_.push_back({static_cast<std::uint32_t>(member), address, BlockPieces(bytes), std::nullopt});
  buffers_->shared_block(buffers_->self(), member).offer(first_, reinterpret_cast<std::uintptr_t>(to));
  return true;
}

/// Moves what is left of the blocks that were offered. All of them were offered before, so that their owners
/// are at work meanwhile: of all but the last this rank takes all that is left.
void ShmExchange::move_offered() {
  for (Offered& block : offered_) {
    if (!block.others) take_pieces(block, &block != &offered_.back());
  }
  std::erase_if(offered_, [this](const Offered& block) { return moved(block); });
}

/// True when the block is here, or its owner must give it.
bool ShmExchange::moved(const Offered& block) {
  const SharedBlock& shared = buffers_->shared_block(buffers_->self(), block.member);
  if (!shared.moved(*block.others)) return false;
  const std::size_t bytes = block.pieces.whole;
  if (block.refused || (shared.failed() && !attach(block.member, block.address, bytes))) {
    ask(block.member, bytes);
    return true;
  }
  got_[block.member] = bytes;
  if (!tells_together()) buffers_->tell_read(block.member);
  return true;
}

/// Reads pieces of a block until none is left.
void ShmExchange::take_pieces(Offered& block, bool all) {
  SharedBlock& shared = buffers_->shared_block(buffers_->self(), block.member);
  const BlockPieces& pieces = block.pieces;
  std::size_t own = 0;
  std::size_t taken = pieces.count;
  while (const auto part = shared.take(first_, pieces.count, all)) {
    own += part->count;
    const std::size_t begin = pieces.begin(part->first);
    const std::span to{place(block.member) + begin, pieces.bytes(part->first, part->count)};
    if (buffers_->attach(block.member, block.address + begin, to)) continue;
    block.refused = true;
    taken = shared.close(first_, pieces.count);
    break;
  }
  block.others = taken - own;
}

/// While this rank waits it writes parts of its blocks into their readers' memory.
void ShmExchange::help_readers() {
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    // Each owner begins with another reader.
    const std::uint32_t m = readers_[(buffers_->self() + i) % readers_.size()];
    if ((uniform_ ? apart_ : stays_[m])->kind != BlockPlace::kPrivate) continue;  // mapped
    const BlockPieces pieces(own_bytes(m));
    SharedBlock& shared = buffers_->shared_block(m, buffers_->self());
    const auto part = shared.take(first_, pieces.count);
    if (!part) continue;
    const std::size_t begin = pieces.begin(part->first);
    const bool there = buffers_->push(m, shared.address() + begin,
                                      {own_block(m) + begin, pieces.bytes(part->first, part->count)});
    buffers_->tell_moved(m, part->count, there);
    if (there) continue;
    buffers_->stop_push();
    return;
  }
}

/// What others may want from this rank while it waits.
void ShmExchange::serve_readers() {
  if (readers_.empty()) return;
  if (shares_blocks() && buffers_->may_push()) help_readers();
  give_pieces();
}

/// False: the kernel refuses, although it did not when the members connected.
bool ShmExchange::attach(std::size_t member, std::uint64_t address, std::size_t bytes) {
  if (refuse(member, bytes)) return true;
  if (std::byte* const to = place(member)) {
    if (!buffers_->attach(member, address, {to, bytes})) return false;
  } else if (!attach_parts(member, address, bytes)) {
    return false;
  }
  got_[member] = bytes;
  return true;
}

/// A block that is unpacked comes in parts that the cache holds, unless it stays in its room.
bool ShmExchange::attach_parts(std::size_t member, std::uint64_t address, std::size_t bytes) {
  constexpr std::size_t in_cache = std::size_t{256} << 10;
  const bool whole = packer_->keeps_rooms() || recv_[member].unit == 0;
  const std::size_t unit = whole ? bytes : recv_[member].unit;
  const std::size_t part = std::min(bytes, std::max(unit, in_cache / unit * unit));
  std::byte* const room = received_room(member, part);
  for (std::size_t at = 0; room != nullptr && at < bytes; at += part) {
    const std::size_t count = std::min(part, bytes - at);
    if (!buffers_->attach(member, address + at, {room, count})) return false;
    scatter(member, at, count, room);
  }
  return true;
}

/// Takes what owners have given of blocks that the kernel did not show.
void ShmExchange::take_given() {
  std::erase_if(refused_, [this](std::uint32_t m) {
    const std::byte* const piece = buffers_->given(m);
    if (piece == nullptr) return false;
    const std::size_t whole = refused_bytes_[m];
    deliver(m, piece, std::min(buffers_->piece_bytes(), whole - got_[m]), whole);
    const bool complete = got_[m] == whole;
    if (!complete) buffers_->ask(m);
    if (complete && !tells_together()) buffers_->tell_read(m);
    return complete;
  });
}

/// Gives readers their blocks to whom the kernel did not show them. Looked for now and then, as it is rare;
/// but at once where this may be a rank's last look before it sleeps.
void ShmExchange::give_pieces() {
  constexpr unsigned every = 32;
  if (++looks_ % every != 0 && !buffers_->expects_sleepers()) return;
  for (const std::uint32_t m : readers_) {
    std::byte* const to = buffers_->asked(m);
    if (to == nullptr) continue;
    buffers_->stop_attach();
    const std::size_t whole = own_bytes(m);
    const std::byte* const from = own_block(m);
    given_.resize(buffers_->members());
    const std::size_t bytes = std::min(buffers_->piece_bytes(), whole - given_[m]);
    std::memcpy(to, from + given_[m], bytes);
    given_[m] += bytes;
    buffers_->give(m);
  }
}

}  // namespace tapa
