/// @file
/// What runs may have left, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "autotune/results.hpp"

namespace tapa {

inline constexpr int kToday = 20000;

inline PlanResult plan(const std::string& choice, double seconds, int samples = 65, bool given_up = false) {
  return {parse_choice(choice), seconds, samples, given_up};
}

inline SizeResult a_size(std::vector<PlanResult> plans, bool decided = true, int day = kToday) {
  return {true, 1024, decided, day, std::move(plans)};
}

inline ResultsWhere a_place() {
  return {"0.1.0", "Open MPI v4.1.4", "a processor, 64", "0123456789abcdef", 16};
}

inline ShapeResults a_shape(std::vector<SizeResult> sizes = {
                                a_size({plan("memory", 1e-5), plan("mpi", 2e-5)})}) {
  return {a_place(), 4, "fedcba9876543210", std::move(sizes)};
}

/// The same result as a run tells it.
inline ShapeResults of_this_run(ShapeResults shape) {
  for (SizeResult& size : shape.sizes) size.day = 0;
  return shape;
}

}  // namespace tapa
