// Orders as data.
#include <memory>
#include <vector>

#include "c_interface/error.hpp"
#include "predict/choose_order.hpp"

struct dit_schedule {
  std::vector<dit_action> actions;
};

using namespace dit::c_interface;

namespace {

static_assert(DIT_STEP_LAST == static_cast<int>(dit::StepRole::last) &&
              DIT_STEP_ATTENTION == static_cast<int>(dit::StepRole::attention) &&
              DIT_STEP_SCATTER_VALUE == static_cast<int>(dit::StepRole::scatter_value));
static_assert(DIT_ACTION_EXCHANGE == static_cast<int>(dit::Action::Kind::exchange) &&
              DIT_ACTION_WAIT == static_cast<int>(dit::Action::Kind::wait));

std::vector<dit_action> actions_of(const dit_schedule_options& options) {
  dit::BlockGraphOptions shape;
  shape.units = options.units;
  shape.layers = options.layers;
  shape.groups = options.groups;
  shape.parts = options.parts;
  shape.selective = options.scores != 0;
  const dit::StepGraph graph = dit::transformer_graph(shape);
  std::vector<dit_action> actions;
  for (const dit::Action& action : dit::make_order(dit::parse_schedule(options.name), graph)) {
    const dit::Step& step = graph.steps[static_cast<std::size_t>(action.step)];
    actions.push_back({static_cast<int>(action.kind), static_cast<int>(step.role), step.layer, step.unit,
                       step.group, step.part});
  }
  return actions;
}

}  // namespace

extern "C" {

dit_status dit_schedule_create(const dit_schedule_options* options, dit_schedule** schedule) {
  return guarded(__func__, [&] {
    const dit_schedule_options given = read_struct(options, "options", "dit_schedule_options");
    dit_schedule*& result = required(schedule, "schedule");
    (void)required(given.name, "options->name");
    result = new dit_schedule{actions_of(given)};
  });
}

dit_status dit_schedule_actions(const dit_schedule* schedule, const dit_action** actions, size_t* count) {
  return guarded(__func__, [&] {
    const dit_schedule& of = required(schedule, "schedule");
    const dit_action*& result = required(actions, "actions");
    required(count, "count") = of.actions.size();
    result = of.actions.data();
  });
}

dit_status dit_schedule_free(dit_schedule** schedule) {
  return guarded(__func__, [&] {
    delete required(schedule, "schedule");
    *schedule = nullptr;
  });
}

}  // extern "C"
