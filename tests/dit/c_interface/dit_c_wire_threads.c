/* Transfers of one wire in a thread each: groups of V that choose V-Major's rows at once, and a policy whose
 * guard asks all ranks. */
#include <math.h>

#include "local_ranks.h"

enum { TOKENS = 512, HEADS = 8, DIM = 16, STEPS = 40, THREADS = 2 };

static const char* policy;
static int groups; /* of V; 1: V and K */

typedef struct worker {
  wired wire;
  int rank, number;
} worker;

/* V of rank 0 jumps, all else stands almost still: a guard speaks of some exchanges only. */
static float value_at(const worker* of, size_t i, int step) {
  const int jumps = groups > 1 || (of->rank == 0 && of->number == 0);
  return sinf(0.1F * (float)i + (jumps ? 0.3F * (float)(i / DIM % 7) : 1e-4F) * (float)step);
}

static void* work(void* argument) {
  worker* own = argument;
  float* source = own->wire.source;
  for (int step = 0; step < STEPS; ++step) {
    for (size_t i = 0; i < own->wire.source_bytes / sizeof *source; ++i) source[i] = value_at(own, i, step);
    REQUIRE_OK(start_at(&own->wire, 0, step, 0));
    REQUIRE_OK(dit_transfer_wait(own->wire.transfer));
  }
  return NULL;
}

static void run(dit_session* session, int rank, int ranks) {
  dit_layout* layout = NULL;
  dit_wire* wire = NULL;
  worker workers[THREADS];
  pthread_t threads[THREADS];
  const dit_attention_shape shape = {sizeof shape, 1, 0, TOKENS, HEADS, HEADS, DIM, 0};
  const dit_wire_options options = {sizeof options, policy, 1, STEPS, 1, groups, DIT_ELEMENT_FP32, NULL};
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  REQUIRE_OK(dit_wire_create(session, layout, &options, &wire));
  for (int i = 0; i < THREADS; ++i) {
    const int kind = groups > 1 || i == 0 ? DIT_SCATTER_VALUE : DIT_SCATTER_KEY;
    workers[i] =
        (worker){make_wired(session, layout, wire, kind, groups > 1 ? i : 0, groups, sizeof(float)), rank, i};
  }
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int i = 0; i < THREADS; ++i) {
    uint64_t guarded = 1;
    REQUIRE_OK(dit_transfer_guarded(workers[i].wire.transfer, &guarded));
    /* Of V in all steps, of K only while nothing is remembered. */
    if (groups == 1 && i == 0) CHECK(guarded == STEPS);
    if (groups == 1 && i > 0) CHECK(guarded > 0 && guarded < 5);
    if (groups > 1) CHECK(guarded == 0);
  }
  for (int i = 0; i < THREADS; ++i) free_wired(&workers[i].wire);
  REQUIRE_OK(dit_wire_free(&wire));
  REQUIRE_OK(dit_layout_free(&layout));
}

int main(void) {
  policy = "v-major:warmup=2,refresh=50,ratio=linear";
  groups = THREADS;
  for (int i = 0; i < 4; ++i) on_local_ranks(2, 20, run);
  policy =
      "{\"format\": \"dit-wire-policy\", \"version\": 1, \"guard\": 0.05,"
      " \"rules\": [{\"mode\": \"residual int1\"}]}";
  groups = 1;
  for (int i = 0; i < 4; ++i) on_local_ranks(2, 20, run);
  return failures > 0;
}
