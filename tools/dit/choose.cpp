#include "choose.hpp"

#include <limits>
#include <vector>

#include "failure.hpp"
#include "predict/choose_order.hpp"
#include "quantity.hpp"

namespace dit::tool {

namespace {

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
    const ChosenSchedule fastest = best_schedule(engine.measure(candidate));
    if (fastest.seconds >= best) continue;
    best = fastest.seconds;
    candidate.schedule = fastest.schedule;
    chosen = candidate;
  }
  return {chosen,
          std::string(to_string(chosen.schedule)) + " predicted at " + figure(best * 1e3) + " ms a step"};
}

}  // namespace dit::tool
