/// V-Major (CoCoDiff, section III-D): of each tensor only the rows whose V changed most travel on slow links;
/// the others keep, at the receiver, what an earlier step brought. The published rule by its own words, as a
/// wire policy, and the choice of rows. Pure; the same on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/wire_policy.hpp"

namespace dit {

/// The fraction r of rows that stay, per step.
struct RatioSchedule {
  enum class Kind { linear, constant, list };
  Kind kind = Kind::linear;
  double value = 0.5;          ///< of constant
  std::vector<double> values;  ///< of list: one for each step, in [0, 1]
  bool operator==(const RatioSchedule&) const = default;
};

struct VMajorPolicy {
  int warmup_steps = 5;    ///< full at the start; the first step always is
  int refresh_every = 10;  ///< every so manieth step is full, counted from the first: 10, 20, ...; 0: never
  RatioSchedule ratio;     ///< linear: 0 at the end of the warm-up, 1 at the last step
  /// Peers reached at this level or a slower one get active rows only; empty: the first level that leaves a
  /// node.
  std::string boundary;
  /// How all that crosses the boundary is written, the output and full steps too.
  WireFormat format = WireFormat::full;
  bool residual = false;
  bool operator==(const VMajorPolicy&) const = default;
};

/// "v-major", "v-major:warmup=5,refresh=10,ratio=linear", "ratio=0.5", "ratio=0/0.25/0.5" (one for each
/// step), "ratio=@FILE" (the same, one to a line or with commas), "boundary=node", "format=bf16",
/// "format=residual-int4". Throws std::invalid_argument that names key, value and what was expected.
/// to_string writes what parses back to the same policy; of a file it writes the numbers.
[[nodiscard]] VMajorPolicy parse_v_major(std::string_view text);
[[nodiscard]] std::string to_string(const VMajorPolicy& policy);

/// What one step does with Q, K and V.
struct StepDecision {
  bool full = true;    ///< everything travels (warm-up, refresh, or no cache yet)
  double ratio = 0.0;  ///< fraction of rows that stay
  bool operator==(const StepDecision&) const = default;
};
/// Decision of step `step` of `steps`, counted from 0. Linear: with n = step + 1, full when n <= warmup or n
/// is a multiple of refresh, else ratio (n - warmup) / (steps - warmup). With the paper's rule (5, 10,
/// linear) and 50 steps the mean active fraction is then 0.596, and 0.540 without refresh, as the paper's
/// volumes want it. Throws std::invalid_argument for a step out of range and for a list that has not one
/// ratio for each step.
[[nodiscard]] StepDecision decide_step(const VMajorPolicy& policy, int step, int steps);
/// Mean over all steps of the fraction of rows that travel.
[[nodiscard]] double mean_active_fraction(const VMajorPolicy& policy, int steps);

/// The paper's rule, in 16 bits as there: what "paper" means.
[[nodiscard]] VMajorPolicy published_v_major();

/// The rule as a wire policy for a run of so many steps: "v-major RATIO FORMAT" where rows stay, FORMAT alone
/// in full steps. Throws as decide_step.
[[nodiscard]] WirePolicy wire_policy_of(const VMajorPolicy& policy, int steps);

/// Rows that travel: the `rows - floor(ratio * rows)` with the largest score; of equal scores the smaller row
/// number first. NaN scores count as largest. Ascending.
[[nodiscard]] std::vector<std::uint32_t> choose_active_rows(std::span<const float> scores, double ratio);
[[nodiscard]] std::int64_t active_row_count(std::int64_t rows, double ratio);

/// Row sets as bit masks, as ranks tell them to each other: row i is bit i % 8 of byte i / 8.
[[nodiscard]] std::size_t row_mask_bytes(std::int64_t rows);
[[nodiscard]] std::vector<std::uint8_t> rows_to_mask(std::span<const std::uint32_t> active,
                                                     std::int64_t rows);
/// Throws std::invalid_argument when the mask has a bit at or beyond `rows` or is of another length.
[[nodiscard]] std::vector<std::uint32_t> mask_to_rows(std::span<const std::uint8_t> mask, std::int64_t rows);

/// For each cached row: the step that brought it. Keyed by the caller by layer, branch and tensor.

}  // namespace dit
