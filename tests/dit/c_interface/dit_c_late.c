/* The last rank is late by more than the time limit: nothing is freed that is still written to, a wait can be
 * repeated, and what was given up says when its memory is free. */
#include <time.h>

#include "check.h"

enum { TOKENS = 4096, HEADS = 8, DIM = 64 }; /* blocks of a MiB with two ranks */

/* Seconds. Two waits end before the late rank comes. Who gave up sleeps as long as the late rank needs, so
 * that they meet again within the limit on a busy machine too. */
static const double limit = 1.0, late = 3.0;

static dit_session* session = NULL;
static dit_layout* layout = NULL;
static int rank = 0, ranks = 0, released = 0;

/* What may be in use to the end of the session, or of the process: reachable, so that it is no leak. */
static float* kept[4];
static int kept_count = 0;
static void keep(float* buffer) {
  kept[kept_count++] = buffer;
}

static void sleep_seconds(double seconds) {
  const struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

static void on_release(void* user) {
  free(user);
  ++released;
}

static dit_transfer* make_transfer(int kind) {
  const dit_transfer_options options = {
      .struct_size = sizeof options, .kind = kind, .groups = 1, .element_bytes = sizeof(float)};
  dit_transfer* transfer = NULL;
  REQUIRE_OK(dit_transfer_create(session, layout, &options, &transfer));
  return transfer;
}

static int all_are(const float* numbers, size_t bytes, float expected) {
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    if (numbers[i] != expected) return 0;
  }
  return 1;
}

/* The others start and fail once; `then` is what they do about it. */
static void run_late(double expected_value, void (*then)(dit_transfer**, float*, float*, size_t)) {
  dit_transfer* transfer = make_transfer(DIT_SCATTER_KEY);
  size_t source_bytes, target_bytes;
  REQUIRE_OK(dit_transfer_bytes(transfer, &source_bytes, &target_bytes));
  float *source = allocate(source_bytes), *target = allocate(target_bytes);
  for (size_t i = 0; i < source_bytes / sizeof(float); ++i) source[i] = (float)expected_value;
  if (rank == ranks - 1) {
    sleep_seconds(late);
    REQUIRE_OK(start(transfer, dense(source, source_bytes), dense(target, target_bytes)));
    dit_status status = dit_transfer_wait(transfer);
    while (status == DIT_ERROR_TIMEOUT) status = dit_transfer_wait(transfer);
    CHECK(status == DIT_OK);
    CHECK(all_are(target, target_bytes, (float)expected_value));
    REQUIRE_OK(dit_transfer_free(&transfer));
    free(source);
    free(target);
    return;
  }
  REQUIRE_OK(start(transfer, dense(source, source_bytes), dense(target, target_bytes)));
  const dit_status status = dit_transfer_wait(transfer);
  char missing[30];
  snprintf(missing, sizeof missing, "rank %d", ranks - 1);
  if (status != DIT_ERROR_TIMEOUT || strstr(dit_last_error(), missing) == NULL) {
    fprintf(stderr, "rank %d: status %d: %s\n", rank, (int)status, dit_last_error());
    ++failures;
  }
  then(&transfer, source, target, target_bytes);
}

static void wait_again(dit_transfer** transfer, float* source, float* target, size_t target_bytes) {
  dit_status status = DIT_ERROR_TIMEOUT;
  while (status == DIT_ERROR_TIMEOUT) status = dit_transfer_wait(*transfer);
  CHECK(status == DIT_OK);
  CHECK(all_are(target, target_bytes, 1));
  REQUIRE_OK(dit_transfer_free(transfer));
  free(source);
  free(target);
}

static void give_up(dit_transfer** transfer, float* source, float* target, size_t target_bytes) {
  (void)target_bytes;
  free(NULL);
  REQUIRE_OK(dit_transfer_cancel(*transfer, on_release, target));
  REQUIRE_OK(dit_transfer_free(transfer));
  sleep_seconds(late - limit);
  free(NULL);
  keep(source); /* sent from until the release */
}

static void free_at_once(dit_transfer** transfer, float* source, float* target, size_t target_bytes) {
  (void)target_bytes;
  CHECK(dit_transfer_free(transfer) == DIT_ERROR_TIMEOUT);
  CHECK(*transfer == NULL);
  keep(source); /* the caller keeps both until the session is closed */
  keep(target);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const dit_open_options open = {sizeof open, NULL, limit, NULL};
  REQUIRE_OK(dit_session_open(argv[1], &open, &session));
  REQUIRE_OK(dit_session_ranks(session, &rank, &ranks));
  const dit_attention_shape shape = {sizeof shape, 1, 0, TOKENS, HEADS, HEADS, DIM, 0};
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  run_late(1, wait_again);
  run_late(2, give_up);
  run_late(3, free_at_once);
  if (rank != ranks - 1) sleep_seconds(late - limit);
  CHECK(dit_layout_free(&layout) == DIT_OK);
  dit_status status = dit_session_close(&session);
  CHECK(status == DIT_OK);
  CHECK(rank == ranks - 1 || released == 1);
  return failures > 0;
}
