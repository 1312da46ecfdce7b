/// @file
/// What tapa-plan prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "explain/verify.hpp"
#include "plan/choose.hpp"
#include "plan/counts.hpp"
#include "plan/plan.hpp"

namespace tapa::plan_tool {

/// A plan with everything that is known about it.
struct Shown {
  std::optional<std::size_t> block_bytes;  ///< nothing when the blocks differ
  std::string why;
  Plan plan;
  Cost cost;
  std::optional<std::vector<Defect>> defects;  ///< when it was verified
};

/// Plan `memory`: what is shown of an exchange that has no steps.
struct ShownShared {
  std::optional<std::size_t> block_bytes;  ///< nothing when the blocks differ
  std::string why;
  Counts counts;
  double seconds = 0;   ///< predicted
  bool verify = false;  ///< it was asked for, but there is nothing to replay
};

/// `ranks`: whose steps are listed too.
[[nodiscard]] std::string text_of(const Shown& shown, const Topology& topology,
                                  const std::vector<int>& ranks);

[[nodiscard]] std::string text_of(const ShownShared& shown, const Topology& topology,
                                  const std::vector<int>& ranks);

/// explain_json's object with "block_bytes", "why" and, when it was verified, "defects".
[[nodiscard]] std::string json_of(const Shown& shown, const Topology& topology, bool steps);

/// The same from explain_shared_json's object; "defects" is null, as nothing is replayed.
[[nodiscard]] std::string json_of(const ShownShared& shown, const Topology& topology, bool steps);

/// One candidate of a comparison.
struct Row {
  Candidate candidate;
  std::optional<Cost> cost;  ///< of its plan, replayed step by step; none for `memory`, which has no steps
  std::size_t sends = 0;     ///< most messages that a rank sends
};

/// Candidates side by side, in the order given.
[[nodiscard]] std::string compare_text(const std::vector<Row>& rows, const Topology& topology,
                                       const std::string& why);

/// {"schema": "tapa-plan/1", "block_bytes", "why", "compare": [{"choice", "seconds", "replayed_seconds",
/// "messages", "bytes", "most_sends", "nic_messages", "nic_bytes", "busiest_nic_bytes"}]}; "replayed_seconds"
/// is null for `memory`, the counts of messages are 0
[[nodiscard]] std::string compare_json(const std::vector<Row>& rows, const Topology& topology,
                                       const std::string& why, std::optional<std::size_t> block_bytes);

}  // namespace tapa::plan_tool
