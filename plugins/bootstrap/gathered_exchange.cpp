#include "bootstrap/gathered_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "memory/reserve.hpp"

namespace dit {
namespace {

/// Where what a rank sends to another begins and ends, if all that it sends stands in order of ranks.
struct Place {
  std::size_t begin, end;
};

Place place_of(std::span<const std::uint64_t> sent, std::size_t receiver) {
  const std::size_t begin =
      std::accumulate(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(receiver), std::size_t{0});
  return {begin, begin + sent[receiver]};
}

/// The part of a place that lies in a piece, as copies: bytes from `block` of the block, at `piece` of the
/// piece.
template <class Copy>
void in_piece(const Place& place, const Place& piece, const Copy& copy) {
  const std::size_t begin = std::max(place.begin, piece.begin);
  const std::size_t end = std::min(place.end, piece.end);
  if (begin < end) copy(begin - place.begin, begin - piece.begin, end - begin);
}

/// Room for a piece of this rank and one of each.
struct Room {
  std::size_t piece;
  std::unique_ptr<std::byte[]> memory;
};

/// For pieces of `longest` bytes, or as many as all ranks have memory for.
Room find_room(CallerFunctions& functions, std::size_t longest) {
  constexpr std::size_t kSmall = std::size_t{32} << 10;  // what is set aside has room for it
  const auto size = static_cast<std::size_t>(functions.size());
  const auto is_small = [&](std::size_t piece) { return piece <= 1 || piece * (size + 1) <= kSmall; };
  Room room{longest, nullptr};
  while (room.memory == nullptr) {
    try {
      room.memory = memory::for_blocks(room.piece * (size + 1));
    } catch (const std::bad_alloc&) {
      if (is_small(room.piece)) throw;
      room.piece /= 2;
    }
  }
  if (is_small(longest)) return room;
  std::vector<std::size_t> of_all(size);
  functions.allgather(&room.piece, of_all.data(), sizeof(room.piece));
  room.piece = *std::ranges::min_element(of_all);
  return room;
}

}  // namespace

void exchange_by_gathering(CallerFunctions& functions, const std::byte* send, const PeerBytes& to,
                           std::byte* recv, const PeerBytes& from, std::span<const std::uint64_t> blocks,
                           std::size_t at_once) {
  const auto size = static_cast<std::size_t>(functions.size());
  const auto self = static_cast<std::size_t>(functions.rank());
  const auto sent_by = [&](std::size_t rank) { return blocks.subspan(rank * 2 * size, size); };
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < size; ++rank)
    most = std::max(most, place_of(sent_by(rank), size - 1).end);
  const Room room = find_room(functions, std::min(most, std::max(at_once / size, std::size_t{1})));
  const std::size_t longest = room.piece;
  std::byte* const mine = room.memory.get();
  std::byte* const all = mine + longest;
  std::memset(mine, 0, longest);
  for (std::size_t begin = 0; begin < most; begin += longest) {
    const Place piece{begin, std::min(begin + longest, most)};
    const std::size_t bytes = piece.end - piece.begin;
    for (std::size_t peer = 0; peer < size; ++peer)
      in_piece(place_of(sent_by(self), peer), piece,
               [&](std::size_t block, std::size_t at, std::size_t count) {
                 std::memcpy(mine + at, send + to.offsets[peer] + block, count);
               });
    functions.allgather(mine, all, bytes);
    for (std::size_t peer = 0; peer < size; ++peer)
      in_piece(place_of(sent_by(peer), self), piece,
               [&](std::size_t block, std::size_t at, std::size_t count) {
                 std::memcpy(recv + from.offsets[peer] + block, all + peer * bytes + at, count);
               });
  }
}

}  // namespace dit
