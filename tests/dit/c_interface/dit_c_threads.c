/* Different handles in different threads: a thread for each transfer of one session, in no common order. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 20, TOKENS = 64, HEADS = 6, DIM = 16 };

typedef struct worker {
  dit_transfer* transfer;
  int number;
  int wrong;
} worker;

static void* work(void* argument) {
  worker* w = argument;
  size_t source_bytes, target_bytes;
  REQUIRE_OK(dit_transfer_bytes(w->transfer, &source_bytes, &target_bytes));
  int *source = allocate(source_bytes), *target = allocate(target_bytes);
  for (int round = 0; round < ROUNDS; ++round) {
    for (size_t i = 0; i < source_bytes / sizeof *source; ++i) source[i] = w->number * 1000 + round;
    REQUIRE_OK(start(w->transfer, dense(source, source_bytes), dense(target, target_bytes)));
    REQUIRE_OK(dit_transfer_wait(w->transfer));
    for (size_t i = 0; i < target_bytes / sizeof *target; ++i)
      w->wrong += target[i] != w->number * 1000 + round;
  }
  free(target);
  free(source);
  return NULL;
}

int main(int argc, char** argv) {
  dit_session* session = NULL;
  dit_layout* layout = NULL;
  int rank, ranks;
  CHECK(argc == 2);
  const dit_open_options open = {sizeof open, NULL, 60, NULL};
  REQUIRE_OK(dit_session_open(argv[1], &open, &session));
  REQUIRE_OK(dit_session_ranks(session, &rank, &ranks));
  const dit_attention_shape shape = {sizeof shape, 1, 0, TOKENS, HEADS, HEADS, DIM, 0};
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  worker workers[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    const dit_transfer_options options = {
        .struct_size = sizeof options, .kind = i % 3, .groups = 1, .element_bytes = sizeof(int)};
    workers[i] = (worker){NULL, i, 0};
    REQUIRE_OK(dit_transfer_create(session, layout, &options, &workers[i].transfer));
  }
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  for (int i = 0; i < THREADS; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(workers[i].wrong == 0);
    REQUIRE_OK(dit_transfer_free(&workers[i].transfer));
  }
  REQUIRE_OK(dit_layout_free(&layout));
  REQUIRE_OK(dit_session_close(&session));
  return failures > 0;
}
