/* Exchanges under a policy that failed or were given up: what the ends remember may differ then. */
#include <math.h>
#include <time.h>

#include "local_ranks.h"

enum { TOKENS = 32, HEADS = 4, DIM = 16, STEPS = 20, LAYERS = 2 };

static pthread_barrier_t both;

static dit_layout* make_layout(int ranks) {
  dit_layout* layout = NULL;
  const dit_attention_shape shape = {sizeof shape, 1, 0, TOKENS, HEADS, HEADS, DIM, 0};
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  return layout;
}

static dit_wire* make_wire(dit_session* session, const dit_layout* layout, const char* policy) {
  dit_wire* wire = NULL;
  const dit_wire_options options = {sizeof options, policy, LAYERS, STEPS, 1, 1, DIT_ELEMENT_FP32, NULL};
  REQUIRE_OK(dit_wire_create(session, layout, &options, &wire));
  return wire;
}

static float value_at(size_t dim, int step) {
  return 1.0F + 0.01F * (float)dim + 0.01F * (float)step;
}

/* Keys that depend on dim and step only; the largest error of what came. */
static double exchange(const wired* keys, int step) {
  float *source = keys->source, *target = keys->target;
  for (size_t i = 0; i < keys->source_bytes / sizeof *source; ++i) source[i] = value_at(i % DIM, step);
  REQUIRE_OK(start_at(keys, 0, step, 0));
  REQUIRE_OK(dit_transfer_wait(keys->transfer));
  double worst = 0;
  for (size_t i = 0; i < keys->target_bytes / sizeof *target; ++i)
    worst = fmax(worst, fabs((double)(target[i] - value_at(i % DIM, step))));
  return worst;
}

static void expect_only_free(const wired* keys, int step) {
  CHECK(start_at(keys, 0, step, 0) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "dit_transfer_free") != NULL);
}

/* It does not go on with other things remembered than the other end; a new transfer does. */
static void fails_in_the_middle(dit_session* session, int rank, int ranks) {
  dit_layout* layout = make_layout(ranks);
  dit_wire* wire = make_wire(session, layout, "balanced");
  wired keys = make_wired(session, layout, wire, DIT_SCATTER_KEY, 0, 1, sizeof(float));
  for (int step = 0; step < 8; ++step) CHECK(exchange(&keys, step) < 0.01);
  REQUIRE_OK(start_at(&keys, 0, rank == 0 ? 8 : 0, 0)); /* other modes, other sizes */
  int done = -1;
  for (int again = 0; again < 3; ++again) {
    CHECK(dit_transfer_wait(keys.transfer) == DIT_ERROR_COMMUNICATION);
    CHECK(dit_transfer_test(keys.transfer, &done) == DIT_ERROR_COMMUNICATION);
    CHECK(dit_transfer_wait_stream(keys.transfer, NULL) == DIT_ERROR_COMMUNICATION);
  }
  CHECK(done == -1);
  expect_only_free(&keys, 9);
  free_wired(&keys);
  keys = make_wired(session, layout, wire, DIT_SCATTER_KEY, 0, 1, sizeof(float));
  CHECK(exchange(&keys, 9) < 0.01);
  for (int step = 10; step < STEPS; ++step) CHECK(exchange(&keys, step) < 0.006);
  free_wired(&keys);
  REQUIRE_OK(dit_wire_free(&wire));
  REQUIRE_OK(dit_layout_free(&layout));
}

static void cancelled(dit_session* session, int rank, int ranks, const char* policy, int remembers) {
  dit_layout* layout = make_layout(ranks);
  dit_wire* wire = make_wire(session, layout, policy);
  wired keys = make_wired(session, layout, wire, DIT_SCATTER_KEY, 0, 1, sizeof(float));
  wired lost = keys;
  if (rank == 0) { /* before the others come */
    memset(keys.source, 0, keys.source_bytes);
    REQUIRE_OK(start_at(&keys, 0, 0, 0));
    REQUIRE_OK(dit_transfer_cancel(keys.transfer, NULL, NULL));
    lost.source = keys.source; /* a late rank may write to them until the session is closed */
    keys.source = allocate(keys.source_bytes);
    keys.target = allocate(keys.target_bytes);
  }
  pthread_barrier_wait(&both);
  if (rank != 0) {
    memset(keys.source, 0, keys.source_bytes);
    REQUIRE_OK(start_at(&keys, 0, 0, 0));
    REQUIRE_OK(dit_transfer_wait(keys.transfer));
  }
  pthread_barrier_wait(&both);
  if (!remembers)
    CHECK(exchange(&keys, 1) < 0.01);
  else if (rank == 0)
    expect_only_free(&keys, 1);
  pthread_barrier_wait(&both);
  free_wired(&keys);
  if (rank == 0) { /* the exchange is done everywhere */
    free(lost.source);
    free(lost.target);
  }
  REQUIRE_OK(dit_wire_free(&wire));
  REQUIRE_OK(dit_layout_free(&layout));
}

static void cancelled_by_policies(dit_session* session, int rank, int ranks) {
  cancelled(session, rank, ranks, "exact", 0);
  cancelled(session, rank, ranks, "bf16", 0);
  cancelled(session, rank, ranks, "balanced", 1);
}

/* What travels for the next step is given up, too: freeing waits for nobody. */
static void cancelled_with_late_blocks(dit_session* session, int rank, int ranks) {
  dit_layout* layout = make_layout(ranks);
  dit_wire* wire = make_wire(session, layout, "displaced");
  wired keys = make_wired(session, layout, wire, DIT_SCATTER_KEY, 0, 1, sizeof(float));
  for (int step = 0; step < 8; ++step) exchange(&keys, step);
  if (rank == 1) pthread_barrier_wait(&both);
  REQUIRE_OK(start_at(&keys, 0, 8, 0));
  if (rank == 0) {
    const time_t begin = time(NULL);
    REQUIRE_OK(dit_transfer_cancel(keys.transfer, NULL, NULL));
    REQUIRE_OK(dit_transfer_free(&keys.transfer));
    CHECK(time(NULL) - begin < 10);
    pthread_barrier_wait(&both);
  } else {
    REQUIRE_OK(dit_transfer_wait(keys.transfer));
  }
  REQUIRE_OK(dit_transfer_free(&keys.transfer));
  pthread_barrier_wait(&both);
  free(keys.source);
  free(keys.target);
  REQUIRE_OK(dit_wire_free(&wire));
  REQUIRE_OK(dit_layout_free(&layout));
}

int main(void) {
  pthread_barrier_init(&both, NULL, 2);
  on_local_ranks(2, 20, fails_in_the_middle);
  on_local_ranks(2, 20, cancelled_by_policies);
  on_local_ranks(2, 20, cancelled_with_late_blocks);
  return failures > 0;
}
