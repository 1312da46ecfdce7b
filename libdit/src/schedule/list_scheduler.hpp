/// List scheduling of a step graph on two lanes: one that computes, one that exchanges.
#pragma once

#include <vector>

#include "schedule/order.hpp"

namespace dit {

/// How a list scheduler chooses among what could be done next.
struct ListRule {
  enum class Priority : std::uint8_t {
    longest_path,  ///< what has most work after it: keeps units and groups abreast of each other
    unit_first,  ///< the first unit whenever it can, the others in its gaps: units drift apart by themselves
    oldest       ///< what could have begun first
  };
  Priority priority = Priority::longest_path;
  bool eager = true;  ///< start exchanges at once; else keep them back while the link has enough to do
  double exchange_scale = 1;    ///< assume that exchanges take so many times their estimates
  int exchanges_under_way = 0;  ///< at most so many; 0: no limit
};

/// `seconds`: time of each step.
[[nodiscard]] Order list_schedule(const StepGraph& graph, const std::vector<double>& seconds,
                                  const ListRule& rule);

}  // namespace dit
