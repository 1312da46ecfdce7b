/// @file
/// The timing loop: contenders take turns, call by call, so that whatever disturbs the machine disturbs all
/// alike.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "options.hpp"

namespace tapa::bench {

/// A call to be timed.
struct Contender {
  std::string name;
  bool ours = false;
  bool may_drop = false;  ///< whether the race may stop timing it once it is clearly beaten
  std::function<void()> call;
  bool bound = false;  ///< what nobody can reach: no measure of who is beaten
  std::function<void()> load =
      nullptr;  ///< before a call whose data are checked: copies them to where it sends from
};

/// Times of one contender, seconds.
struct Times {
  std::vector<double> own;      ///< this rank's
  std::vector<double> slowest;  ///< maximum over all ranks, call by call
};

/// Runs the contenders in turn: call, barrier, next one; in each round in another order, as a call finds the
/// caches as the one before it has left them. The number
/// of rounds is options.iterations, or as many as fit into options.seconds (at least 5, at most OSU's 1,000,
/// or 100 above 8,192 bytes). Before that come options.settle untimed calls of ours, as far as they fit into
/// options.seconds too. After three rounds a contender that may be dropped and whose best time is
/// over 1.5 times the best median stops being timed. Collective; all ranks get times of the same calls.
[[nodiscard]] std::vector<Times> race(MPI_Comm comm, const std::vector<Contender>& contenders,
                                      const Options& options, std::size_t bytes);

}  // namespace tapa::bench
