#include "bootstrap/gathered_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

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
  const std::size_t longest = std::min(most, std::max(at_once / size, std::size_t{1}));
  std::vector<std::byte> mine(longest), all(longest * size);
  for (std::size_t begin = 0; begin < most; begin += longest) {
    const Place piece{begin, std::min(begin + longest, most)};
    const std::size_t bytes = piece.end - piece.begin;
    for (std::size_t peer = 0; peer < size; ++peer)
      in_piece(place_of(sent_by(self), peer), piece,
               [&](std::size_t block, std::size_t at, std::size_t count) {
                 std::memcpy(&mine[at], send + to.offsets[peer] + block, count);
               });
    functions.allgather(mine.data(), all.data(), bytes);
    for (std::size_t peer = 0; peer < size; ++peer)
      in_piece(place_of(sent_by(peer), self), piece,
               [&](std::size_t block, std::size_t at, std::size_t count) {
                 std::memcpy(recv + from.offsets[peer] + block, &all[peer * bytes + at], count);
               });
  }
}

}  // namespace dit
