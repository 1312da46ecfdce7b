/* Layers and guidance branches that come for the first time in a later step (a guidance interval, an image
 * that begins in the middle): nobody remembers anything of them; and steps that are made twice. */
#include <math.h>

#include "local_ranks.h"

enum { TOKENS = 32, HEADS = 4, DIM = 16, STEPS = 20, INPUTS = 3 };

static const char* policy;
static const int order[INPUTS] = {DIT_SCATTER_VALUE, DIT_SCATTER_QUERY, DIT_SCATTER_KEY};

static float value_at(int64_t token, int64_t head, int64_t dim, int step) {
  return sinf(0.7F * (float)token + 1.3F * (float)head + 0.1F * (float)dim) + 0.01F * (float)step;
}

static void fill(float* rows, dit_range tokens, dit_range heads, int step) {
  for (int64_t token = tokens.begin; token < tokens.end; ++token)
    for (int64_t head = heads.begin; head < heads.end; ++head)
      for (int64_t dim = 0; dim < DIM; ++dim) *rows++ = value_at(token, head, dim, step);
}

static double distance(const float* came, const float* sent, size_t count) {
  double error = 0, whole = 0;
  for (size_t i = 0; i < count; ++i) {
    error += (double)(came[i] - sent[i]) * (double)(came[i] - sent[i]);
    whole += (double)sent[i] * (double)sent[i];
  }
  return sqrt(error / whole);
}

/* The worst of Q, K and V. */
static double exchange(const wired* inputs, const dit_rank_part* part, int layer, int step, int branch) {
  const dit_range all_heads = {0, HEADS}, all_tokens = {0, TOKENS};
  double worst = 0;
  float* expected = allocate(inputs[0].target_bytes);
  fill(expected, all_tokens, part->heads, step);
  for (int i = 0; i < INPUTS; ++i) {
    fill(inputs[i].source, part->image_tokens, all_heads, step);
    REQUIRE_OK(start_at(&inputs[i], layer, step, branch));
  }
  for (int i = 0; i < INPUTS; ++i) {
    REQUIRE_OK(dit_transfer_wait(inputs[i].transfer));
    worst = fmax(worst, distance(inputs[i].target, expected, inputs[i].target_bytes / sizeof(float)));
  }
  free(expected);
  return worst;
}

static void run(dit_session* session, int rank, int ranks) {
  dit_layout* layout = NULL;
  dit_wire* wire = NULL;
  wired inputs[INPUTS];
  const dit_attention_shape shape = {sizeof shape, 1, 0, TOKENS, HEADS, HEADS, DIM, 0};
  const dit_wire_options options = {sizeof options, policy, 2, STEPS, 2, 1, DIT_ELEMENT_FP32, NULL};
  dit_rank_part part = {.struct_size = sizeof part};
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  REQUIRE_OK(dit_layout_part(layout, rank, 0, 1, &part));
  REQUIRE_OK(dit_wire_create(session, layout, &options, &wire));
  for (int i = 0; i < INPUTS; ++i)
    inputs[i] = make_wired(session, layout, wire, order[i], 0, 1, sizeof(float));
  for (int step = 6; step < STEPS;
       ++step) { /* no step 0; the second branch from 8, the second layer from 9 */
    for (int branch = 0; branch < (step < 8 ? 1 : 2); ++branch) {
      for (int layer = 0; layer < (step < 9 ? 1 : 2); ++layer) {
        const double off = exchange(inputs, &part, layer, step, branch);
        if (!(off < 0.05)) {
          fprintf(stderr, "%s: rank %d, layer %d, step %d, branch %d: off by %f\n", policy, rank, layer, step,
                  branch, off);
          ++failures;
        }
      }
    }
  }
  for (int i = 0; i < INPUTS; ++i) free_wired(&inputs[i]);
  REQUIRE_OK(dit_wire_free(&wire));
  REQUIRE_OK(dit_layout_free(&layout));
}

/* Two evaluations of a step, as second-order samplers make them: the rows that moved in the second one travel
 * with it. Half of the rows do. */
static void in_a_step_again(dit_session* session, int rank, int ranks) {
  dit_layout* layout = NULL;
  dit_wire* wire = NULL;
  const dit_attention_shape shape = {sizeof shape, 1, 0, TOKENS, HEADS, HEADS, DIM, 0};
  const dit_wire_options options = {
      sizeof options, "v-major:warmup=1,refresh=50,ratio=0.5", 1, STEPS, 1, 1, DIT_ELEMENT_FP32, NULL};
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  REQUIRE_OK(dit_wire_create(session, layout, &options, &wire));
  wired value = make_wired(session, layout, wire, DIT_SCATTER_VALUE, 0, 1, sizeof(float));
  float *source = value.source, *target = value.target;
  memset(source, 0, value.source_bytes);
  for (int visit = 0; visit < 6; ++visit) {
    for (size_t i = 0; i < value.source_bytes / sizeof *source; ++i)
      if ((i / (HEADS * DIM) + (size_t)visit) % 2 == 0) source[i] += 1;
    REQUIRE_OK(start_at(&value, 0, 3 + visit / 2, 0));
    REQUIRE_OK(dit_transfer_wait(value.transfer));
    for (size_t i = 0; i < value.target_bytes / sizeof *target; ++i) {
      const size_t token = i / (value.target_bytes / sizeof *target / TOKENS);
      const float sent = (float)((visit + (token % 2 == 0 ? 2 : 1)) / 2);
      CHECK(target[i] == sent);
      if (target[i] != sent) break;
    }
  }
  free_wired(&value);
  REQUIRE_OK(dit_wire_free(&wire));
  REQUIRE_OK(dit_layout_free(&layout));
  (void)rank;
}

int main(void) {
  const char* policies[] = {"balanced", "fast", "displaced", "paper", "v-major:warmup=3,refresh=50"};
  for (size_t i = 0; i < sizeof policies / sizeof *policies; ++i) {
    policy = policies[i];
    on_local_ranks(2, 20, run);
  }
  on_local_ranks(2, 20, in_a_step_again);
  return failures > 0;
}
