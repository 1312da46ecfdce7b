// Orders as data.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "c_interface/error.hpp"
#include "predict/choose_order.hpp"

struct dit_schedule {
  std::vector<dit_action> actions;
};

using namespace dit::c_interface;

namespace {

static_assert(DIT_STEP_MLP_OUT + 1 == dit::kStepRoles &&
              DIT_STEP_LAST == static_cast<int>(dit::StepRole::last) &&
              DIT_STEP_MLP_OUT == static_cast<int>(dit::StepRole::mlp_out) &&
              DIT_STEP_ATTENTION == static_cast<int>(dit::StepRole::attention) &&
              DIT_STEP_SCATTER_VALUE == static_cast<int>(dit::StepRole::scatter_value));
static_assert(DIT_ACTION_EXCHANGE == static_cast<int>(dit::Action::Kind::exchange) &&
              DIT_ACTION_WAIT == static_cast<int>(dit::Action::Kind::wait));

std::vector<dit::Block> blocks_of(const dit_schedule_options& options) {
  std::vector<dit::Block> blocks;
  for (int layer = 0; options.mlp != nullptr && layer < options.layers; ++layer) {
    const int place = options.mlp[layer];
    if (place != DIT_MLP_AFTER && place != DIT_MLP_BESIDE) {
      throw std::invalid_argument("options->mlp[" + std::to_string(layer) + "] is " + std::to_string(place) +
                                  ": expected DIT_MLP_AFTER (0) or DIT_MLP_BESIDE (1)");
    }
    blocks.push_back({place == DIT_MLP_BESIDE ? dit::MlpPlace::beside : dit::MlpPlace::after, place});
  }
  return blocks;
}

std::vector<dit_action> actions_of(const dit_schedule_options& options) {
  dit::BlockGraphOptions shape;
  shape.units = options.units;
  shape.layers = options.layers;
  shape.groups = options.groups;
  shape.selective = options.scores != 0;
  shape.blocks = blocks_of(options);
  const dit::StepGraph graph = dit::transformer_graph(shape);
  std::vector<dit_action> actions;
  for (const dit::Action& action : dit::make_order(dit::parse_schedule(options.name), graph)) {
    const dit::Step& step = graph.steps[static_cast<std::size_t>(action.step)];
    actions.push_back(
        {static_cast<int>(action.kind), static_cast<int>(step.role), step.layer, step.unit, step.group});
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
