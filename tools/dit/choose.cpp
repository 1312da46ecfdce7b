#include "choose.hpp"

#include <limits>
#include <vector>

#include "failure.hpp"
#include "quantity.hpp"

namespace dit::tool {

namespace {

/// A candidate's time of one sampling step, by replay of what was measured. V-Major steps are mixed as they
/// will come.
double predicted_seconds(const MeasuredGraphs& graphs, const GenerateOptions& options) {
  const auto seconds = [&](const StepGraph& graph) {
    return predict(graph, make_order(options.schedule, graph)).seconds;
  };
  if (!graphs.selective) return seconds(graphs.full);
  const double share = graphs.selective_share;
  return (1 - share) * seconds(graphs.full) + share * seconds(*graphs.selective);
}

std::vector<GuidanceMode> modes_to_try(const GenerateOptions& options) {
  if (options.guidance_mode) return {*options.guidance_mode};
  if (options.guidance == 1) return {GuidanceMode::batched};
  return {GuidanceMode::batched, GuidanceMode::sequential};
}

}  // namespace

Choice choose(const Member& member, const RunWords& words, GenerateOptions options, Engine& engine) {
  std::optional<Schedule> schedule;
  member.together([&] {
    schedule = parse_schedule_or_auto(words.schedule);
    options.guidance_mode = parse_mode_or_auto(words.guidance_mode);
    options.head_groups = words.head_groups > 0 ? words.head_groups : 1;
    options.schedule = schedule.value_or(Schedule::flat);
    engine.check(options);
  });
  if (schedule) return {options, ""};
  if (member.size() == 1) return {options, "one rank exchanges nothing"};
  double best = std::numeric_limits<double>::infinity();
  GenerateOptions chosen = options;
  for (const GuidanceMode mode : modes_to_try(options)) {
    GenerateOptions candidate = options;
    candidate.guidance_mode = mode;
    const MeasuredGraphs graphs = engine.measure(candidate);
    for (const Schedule each : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
      candidate.schedule = each;
      const double seconds = predicted_seconds(graphs, candidate);
      if (seconds >= best) continue;
      best = seconds;
      chosen = candidate;
    }
  }
  return {chosen,
          std::string(to_string(chosen.schedule)) + " predicted at " + figure(best * 1e3) + " ms a step"};
}

}  // namespace dit::tool
