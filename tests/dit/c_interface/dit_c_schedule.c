/* Orders as data: every step once, exchanges started before they are waited for, V first where it should be.
 */
#include "check.h"

static dit_schedule_options options_of(const char* name) {
  const dit_schedule_options options = {sizeof options, name, 3, 2, 2, 0, NULL};
  return options;
}

static int count_of(const dit_action* actions, size_t count, int kind, int role) {
  int found = 0;
  for (size_t i = 0; i < count; ++i) found += actions[i].kind == kind && actions[i].role == role;
  return found;
}

static size_t place_of(const dit_action* actions, size_t count, int kind, int role) {
  size_t i = 0;
  while (i < count && !(actions[i].kind == kind && actions[i].role == role)) ++i;
  return i;
}

int main(void) {
  const dit_action* actions = NULL;
  size_t count = 0;
  dit_schedule* schedule = NULL;
  dit_schedule_options options = options_of("v-first");
  REQUIRE_OK(dit_schedule_create(&options, &schedule));
  REQUIRE_OK(dit_schedule_actions(schedule, &actions, &count));
  for (int role = DIT_STEP_SCATTER_VALUE; role <= DIT_STEP_SCATTER_KEY; ++role) {
    CHECK(count_of(actions, count, DIT_ACTION_START, role) == 3 * 2 * 2);
    CHECK(count_of(actions, count, DIT_ACTION_WAIT, role) == 3 * 2 * 2);
    CHECK(place_of(actions, count, DIT_ACTION_START, role) < place_of(actions, count, DIT_ACTION_WAIT, role));
  }
  CHECK(count_of(actions, count, DIT_ACTION_COMPUTE, DIT_STEP_ATTENTION) == 3 * 2 * 2);
  CHECK(count_of(actions, count, DIT_ACTION_COMPUTE, DIT_STEP_MLP) == 3 * 2);
  CHECK(count_of(actions, count, DIT_ACTION_COMPUTE, DIT_STEP_SCORE) == 0);
  CHECK(place_of(actions, count, DIT_ACTION_START, DIT_STEP_SCATTER_VALUE) <
        place_of(actions, count, DIT_ACTION_COMPUTE, DIT_STEP_KEY));
  REQUIRE_OK(dit_schedule_free(&schedule));
  CHECK(schedule == NULL);

  options = options_of("flat");
  options.scores = 1;
  REQUIRE_OK(dit_schedule_create(&options, &schedule));
  REQUIRE_OK(dit_schedule_actions(schedule, &actions, &count));
  CHECK(count_of(actions, count, DIT_ACTION_EXCHANGE, DIT_STEP_GATHER_OUTPUT) == 3 * 2 * 2);
  CHECK(count_of(actions, count, DIT_ACTION_START, DIT_STEP_GATHER_OUTPUT) == 0);
  CHECK(count_of(actions, count, DIT_ACTION_COMPUTE, DIT_STEP_SCORE) == 3 * 2);
  REQUIRE_OK(dit_schedule_free(&schedule));

  const int beside[3] = {DIT_MLP_AFTER, DIT_MLP_BESIDE, DIT_MLP_BESIDE};
  options = options_of("v-first");
  options.mlp = beside;
  REQUIRE_OK(dit_schedule_create(&options, &schedule));
  REQUIRE_OK(dit_schedule_actions(schedule, &actions, &count));
  CHECK(count_of(actions, count, DIT_ACTION_COMPUTE, DIT_STEP_MLP) == 2);
  CHECK(count_of(actions, count, DIT_ACTION_COMPUTE, DIT_STEP_MLP_IN) == 2 * 2);
  CHECK(count_of(actions, count, DIT_ACTION_COMPUTE, DIT_STEP_MLP_OUT) == 2 * 2);
  REQUIRE_OK(dit_schedule_free(&schedule));
  const int unknown[3] = {DIT_MLP_AFTER, DIT_MLP_AFTER, 2};
  options.mlp = unknown;
  CHECK(dit_schedule_create(&options, &schedule) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "options->mlp[2] is 2") != NULL);
  options.mlp = NULL;

  options.name = "sideways";
  CHECK(dit_schedule_create(&options, &schedule) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "sideways") != NULL && strstr(dit_last_error(), "v-first") != NULL);
  options = options_of("flat");
  options.layers = 0;
  CHECK(dit_schedule_create(&options, &schedule) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "layers of a step graph is 0") != NULL);
  options.layers = 2000000000;
  options.units = 2000000000;
  CHECK(dit_schedule_create(&options, &schedule) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "units * layers * groups of a step graph is 2000000000 * 2000000000 * ") !=
        NULL);
  options.name = NULL;
  CHECK(dit_schedule_create(&options, &schedule) == DIT_ERROR_ARGUMENT);
  CHECK(schedule == NULL);
  return failures > 0;
}
