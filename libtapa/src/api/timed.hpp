/// @file
/// What MPI's all-to-alls take on a communicator that is not set up.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <type_traits>

#include "comm/comm_state.hpp"
#include "run/freed_handles.hpp"

namespace tapa {

/// Hands a blocking call to MPI by `hand_over`, which returns MPI's code, or false when it did not. Its time
/// stands for that of `weight` calls, if any; see CommState::newcomer_weight.
template <class HandOver>
auto timed(CommState& state, unsigned weight, const HandOver& hand_over) {
  if (weight == 0) return hand_over();
  const std::uint64_t freed = freed_communicators.load(std::memory_order_acquire);
  const double began = PMPI_Wtime();
  const auto result = hand_over();
  const double seconds = PMPI_Wtime() - began;
  bool happened = true;
  if constexpr (std::is_same_v<decltype(result), const bool>) happened = result;
  // An error handler or another thread may have freed communicators.
  const bool lives = freed == freed_communicators.load(std::memory_order_acquire);
  if (lives && happened) state.count_newcomer(seconds, weight);
  return result;
}

}  // namespace tapa
