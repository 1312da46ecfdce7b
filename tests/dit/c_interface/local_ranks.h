/* Ranks as threads, each with its session. */
#ifndef DIT_TEST_LOCAL_RANKS_H
#define DIT_TEST_LOCAL_RANKS_H

#include <pthread.h>

#include "check.h"

typedef struct local_rank {
  dit_local_group* group;
  int rank, ranks;
  double timeout; /* seconds */
  void (*run)(dit_session* session, int rank, int ranks);
} local_rank;

static void* run_local_rank(void* argument) {
  const local_rank* own = argument;
  dit_session* session = NULL;
  dit_open_options open = {.struct_size = sizeof open, .timeout_seconds = own->timeout};
  REQUIRE_OK(dit_local_group_member(own->group, own->rank, &open.communicator));
  REQUIRE_OK(dit_session_open("local", &open, &session));
  own->run(session, own->rank, own->ranks);
  REQUIRE_OK(dit_session_close(&session));
  return NULL;
}

/* Each rank is a node. */
static inline void on_local_ranks(int ranks, double timeout,
                                  void (*run)(dit_session* session, int rank, int ranks)) {
  enum { MOST = 16 };
  pthread_t threads[MOST];
  local_rank all[MOST];
  dit_local_group* group = NULL;
  REQUIRE_OK(dit_local_group_create(ranks, 1, &group));
  for (int rank = 0; rank < ranks; ++rank) {
    all[rank] = (local_rank){group, rank, ranks, timeout, run};
    if (pthread_create(&threads[rank], NULL, run_local_rank, &all[rank]) != 0) exit(1);
  }
  for (int rank = 0; rank < ranks; ++rank) pthread_join(threads[rank], NULL);
  REQUIRE_OK(dit_local_group_free(&group));
}

/* A transfer under a wire, and its dense tensors. */
typedef struct wired {
  dit_transfer* transfer;
  void *source, *target;
  size_t source_bytes, target_bytes;
} wired;

static inline wired make_wired(dit_session* session, const dit_layout* layout, dit_wire* wire, int kind,
                               int group, int groups, size_t element_bytes) {
  wired made = {.transfer = NULL};
  const dit_transfer_options options = {.struct_size = sizeof options,
                                        .kind = kind,
                                        .group = group,
                                        .groups = groups,
                                        .element_bytes = element_bytes,
                                        .wire = wire};
  REQUIRE_OK(dit_transfer_create(session, layout, &options, &made.transfer));
  REQUIRE_OK(dit_transfer_bytes(made.transfer, &made.source_bytes, &made.target_bytes));
  made.source = allocate(made.source_bytes);
  made.target = allocate(made.target_bytes);
  return made;
}

static inline dit_status start_at(const wired* of, int layer, int step, int branch) {
  const dit_transfer_call call = {.struct_size = sizeof call,
                                  .source = dense(of->source, of->source_bytes),
                                  .target = dense(of->target, of->target_bytes),
                                  .layer = layer,
                                  .step = step,
                                  .branch = branch};
  return dit_transfer_start(of->transfer, &call);
}

static inline void free_wired(wired* of) {
  REQUIRE_OK(dit_transfer_free(&of->transfer));
  free(of->source);
  free(of->target);
}

#endif
