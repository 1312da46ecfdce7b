/* A wire policy from C: three ranks, five heads, seventeen tokens, twenty steps; once exact, once `balanced`.
 * Ranks are threads, each a node of its own, so every exchange crosses slow links:
 * build/release/bin/examples/dit_policy */
#include <dit/dit.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 3, HEADS = 5, TOKENS = 17, DIM = 64, STEPS = 20 };

typedef struct rank_run {
  dit_local_group* group;
  const char* policy;
  int rank;
  uint64_t sent_bytes, memory_bytes;
  double error, whole; /* squares, summed over all steps */
} rank_run;

static void must(dit_status status) {
  if (status == DIT_OK) return;
  fprintf(stderr, "%s\n", dit_last_error());
  exit(1);
}

/* Stands for a key projection: it moves a little from step to step, as a model's does. */
static float key_at(int step, int64_t token, int64_t head, int64_t dim) {
  return sinf(0.7F * (float)token + 1.3F * (float)head + 0.1F * (float)dim + 0.03F * (float)step);
}

static void* run(void* argument) {
  rank_run* own = argument;
  dit_session* session = NULL;
  dit_layout* layout = NULL;
  dit_wire* wire = NULL;
  dit_transfer* keys = NULL;
  dit_open_options open = {.struct_size = sizeof open};
  must(dit_local_group_member(own->group, own->rank, &open.communicator));
  must(dit_session_open("local", &open, &session));

  const dit_attention_shape shape = {sizeof shape, 1, 0, TOKENS, HEADS, HEADS, DIM, 0};
  dit_rank_part part = {.struct_size = sizeof part};
  must(dit_layout_create(&shape, RANKS, &layout));
  must(dit_layout_part(layout, own->rank, 0, 1, &part));

  const dit_wire_options policy = {sizeof policy, own->policy, 1, STEPS, 1, 1, DIT_ELEMENT_FP32, NULL};
  must(dit_wire_create(session, layout, &policy, &wire));
  must(dit_wire_memory_bytes(wire, &own->memory_bytes));
  const dit_transfer_options options = {sizeof options, DIT_SCATTER_KEY, 0,    1,
                                        sizeof(float),  "keys",          wire, DIT_MEMORY_HOST};
  size_t source_bytes, target_bytes;
  must(dit_transfer_create(session, layout, &options, &keys));
  must(dit_transfer_bytes(keys, &source_bytes, &target_bytes));
  float *source = malloc(source_bytes), *target = malloc(target_bytes);
  if (source == NULL || target == NULL) exit(1);

  for (int step = 0; step < STEPS; ++step) {
    for (size_t i = 0; i < source_bytes / sizeof(float); ++i) {
      source[i] = key_at(step, part.image_tokens.begin + (int64_t)i / (HEADS * DIM), (int64_t)i / DIM % HEADS,
                         (int64_t)i % DIM);
    }
    const dit_transfer_call call = {.struct_size = sizeof call,
                                    .source = {source, source_bytes, 0, 0, 0},
                                    .target = {target, target_bytes, 0, 0, 0},
                                    .step = step};
    must(dit_transfer_start(keys, &call));
    must(dit_transfer_wait(keys)); /* an engine computes its queries before it waits */
    const int64_t heads = part.kv_heads.end - part.kv_heads.begin;
    for (size_t i = 0; i < target_bytes / sizeof(float); ++i) {
      const float sent = key_at(step, (int64_t)i / (heads * DIM),
                                part.kv_heads.begin + (int64_t)i / DIM % heads, (int64_t)i % DIM);
      own->error += (double)(target[i] - sent) * (double)(target[i] - sent);
      own->whole += (double)sent * (double)sent;
    }
  }
  dit_exchange_totals totals = {.struct_size = sizeof totals};
  must(dit_session_totals(session, &totals));
  own->sent_bytes = totals.sent_bytes[1]; /* level 1 leaves the node */
  free(target);
  free(source);
  must(dit_transfer_free(&keys));
  must(dit_wire_free(&wire));
  must(dit_layout_free(&layout));
  must(dit_session_close(&session));
  return NULL;
}

int main(void) {
  const char* policies[] = {"exact", "balanced"};
  for (int i = 0; i < 2; ++i) {
    pthread_t threads[RANKS];
    rank_run runs[RANKS];
    dit_local_group* group = NULL;
    must(dit_local_group_create(RANKS, 1, &group));
    for (int rank = 0; rank < RANKS; ++rank) {
      runs[rank] = (rank_run){group, policies[i], rank, 0, 0, 0, 0};
      if (pthread_create(&threads[rank], NULL, run, &runs[rank]) != 0) return 1;
    }
    for (int rank = 0; rank < RANKS; ++rank) {
      pthread_join(threads[rank], NULL);
      printf("%-8s rank %d: sent %7llu bytes, remembers %6llu, relative error %.6f\n", policies[i], rank,
             (unsigned long long)runs[rank].sent_bytes, (unsigned long long)runs[rank].memory_bytes,
             sqrt(runs[rank].error / runs[rank].whole));
    }
    must(dit_local_group_free(&group));
  }
  return 0;
}
