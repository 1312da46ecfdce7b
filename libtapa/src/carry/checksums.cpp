#include "carry/checksums.hpp"

#include <cstdint>
#include <cstdio>

#include "carry/call_numbers.hpp"
#include "carry/window_tags.hpp"
#include "run/error.hpp"

namespace tapa {

namespace {

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
std::size_t checksum(const std::byte* data, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

void Checksums::start(const CommState& state, const TagWindow& tags, const Exchange& exchange,
                      std::span<const std::byte* const> send) {
  std::vector<std::size_t> outgoing;
  for (const int peer : other_ranks(state)) {
    const auto at = static_cast<std::size_t>(peer);
    outgoing.push_back(checksum(send[at], exchange.send[at].bytes));
  }
  sums_.start(state.space(), tags.first + window_tags::kSums, other_ranks(state), 1, outgoing, false);
}

void Checksums::check(int rank, const Exchange& exchange, std::span<std::byte* const> recv) const {
  for (std::size_t i = 0; i < sums_.members().size(); ++i) {
    const int peer = sums_.members()[i];
    const auto at = static_cast<std::size_t>(peer);
    const std::size_t arrived = checksum(recv[at], exchange.recv[at].bytes);
    const std::size_t sent = sums_.from(i)[0];
    if (arrived == sent) continue;
    char text[160];
    std::snprintf(text, sizeof text,
                  "the %zu bytes from rank %d to rank %d have checksum %016zx, expected %016zx",
                  exchange.recv[at].bytes, peer, rank, arrived, sent);
    throw CallError(MPI_ERR_OTHER, text);
  }
}

}  // namespace tapa
