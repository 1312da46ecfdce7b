/// @file
/// The parts of a communicator's state that its lock guards.
#pragma once

#include <cstddef>

#include "autotune/autotuner.hpp"
#include "comm/call_order.hpp"
#include "comm/mean_block.hpp"
#include "comm/plan_chooser.hpp"
#include "comm/report.hpp"
#include "comm/shared_regions.hpp"

namespace tapa {

/// The way of the last call with equal blocks that began without a place in the order of calls; the next one
/// of that size takes the same.
struct LastWay {
  std::size_t bytes = 0;  ///< 0: none
  bool mpi = false;
  Autotuner::Running* counted = nullptr;
};

struct CommParts {
  CommParts(int rank, int ranks) : chooser(rank, ranks), tuner(chooser, ranks) {}

  CallOrder order;
  PlanChooser chooser;
  Autotuner tuner;
  MeanBlock mean;
  SharedRegions regions;
  Report report;
  LastWay last;
};

}  // namespace tapa
