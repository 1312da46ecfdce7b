/// An all-to-all of host memory where ranks can only gather: every rank gets what all send, piece by piece,
/// and keeps what is for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "bootstrap/caller_functions.hpp"

namespace dit {

inline constexpr std::size_t kGatheredAtOnce = std::size_t{64} << 20;

/// `blocks`: of each rank 2 * size numbers, of which the first `size` are the bytes that it sends to each
/// rank. `at_once`: bytes of all ranks in one piece, at most. Throws PluginFailure.
void exchange_by_gathering(CallerFunctions& functions, const std::byte* send, const PeerBytes& to,
                           std::byte* recv, const PeerBytes& from, std::span<const std::uint64_t> blocks,
                           std::size_t at_once = kGatheredAtOnce);

}  // namespace dit
