/// @file
/// Rounds in which every rank sends to all others by pipes, for tests of pipes and of what moves their
/// messages.
#pragma once

#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include "host_pipes.hpp"

namespace tapa::device {

/// Bytes of the message from one rank to another in a round, of numbers drawn for these.
using MessageBytes = std::function<std::size_t(std::minstd_rand&)>;

/// A quarter of the messages are empty, the others shorter than `most`.
inline MessageBytes shorter_than(std::size_t most) {
  return [most](std::minstd_rand& random) -> std::size_t { return random() % 4 == 0 ? 0 : random() % most; };
}

inline std::size_t bytes_in_round(const MessageBytes& bytes, std::size_t from, std::size_t to,
                                  unsigned round) {
  std::minstd_rand random(static_cast<unsigned>(round * 4096 + from * 64 + to));
  random.discard(4);
  return bytes(random);
}
inline std::byte byte_in_round(std::size_t from, std::size_t to, unsigned round, std::size_t at) {
  return static_cast<std::byte>((from * 31 + to * 7 + round * 101 + at * 13) % 251);
}

/// What one rank does in one round; the number of wrong bytes.
inline std::size_t wrong_in_round(HostPipes& pipes, std::size_t rank, std::size_t ranks, unsigned round,
                                  const MessageBytes& bytes, unsigned seed) {
  std::vector<std::vector<std::byte>> out(ranks), in(ranks);
  std::vector<HostPipes::Part> sends, receives;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    out[peer].resize(bytes_in_round(bytes, rank, peer, round));
    for (std::size_t at = 0; at < out[peer].size(); ++at)
      out[peer][at] = byte_in_round(rank, peer, round, at);
    in[peer].assign(bytes_in_round(bytes, peer, rank, round), std::byte{0xee});
    sends.push_back({out[peer].data(), out[peer].size()});
    receives.push_back({in[peer].data(), in[peer].size()});
  }
  pipes.exchange(sends, receives, seed);
  std::size_t wrong = 0;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    for (std::size_t at = 0; at < in[peer].size() && peer != rank; ++at)
      wrong += in[peer][at] != byte_in_round(peer, rank, round, at) ? 1 : 0;
  }
  return wrong;
}

}  // namespace tapa::device
