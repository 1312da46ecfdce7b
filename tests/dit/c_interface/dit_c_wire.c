/* Wire policies from C: exact ones change no bit, lossy ones are near and take fewer bytes on slow links, all
 * ranks decode alike. Ranks are threads, two on a node. */
#include <math.h>
#include <pthread.h>

#include "check.h"

enum { ROWS_STAY_IN = 4, RANKS = 5, LAYERS = 2, STEPS = 12, HEADS = 7, DIM = 32, TOKENS = 41, TEXT = 3 };

typedef struct rank_job {
  dit_local_group* group;
  const char* policy;
  int rank;
  dit_wire* wire;
  double worst;        /* relative L2 of what came, over all exchanges */
  uint64_t bits;       /* a digest of what came */
  uint64_t slow_bytes; /* sent */
  uint64_t memory;
  double share;
} rank_job;

/* What moves smoothly from step to step, as tensors of a diffusion model do. */
static float value_at(int layer, int step, int64_t token, int64_t head, int64_t dim) {
  const double phase = 0.7 * (double)token + 1.3 * (double)head + 0.11 * (double)dim + 2.1 * layer;
  return (float)(sin(phase + 0.02 * step) * (1.0 + 0.2 * cos(0.3 * (double)dim)));
}

static void fill(float* tensor, int layer, int step, dit_range tokens, dit_range heads) {
  for (int64_t token = tokens.begin; token < tokens.end; ++token) {
    for (int64_t head = heads.begin; head < heads.end; ++head) {
      for (int64_t dim = 0; dim < DIM; ++dim) *tensor++ = value_at(layer, step, token, head, dim);
    }
  }
}

static double distance(const float* came, const float* sent, size_t count) {
  double error = 0, whole = 0;
  for (size_t i = 0; i < count; ++i) {
    error += (double)(came[i] - sent[i]) * (double)(came[i] - sent[i]);
    whole += (double)sent[i] * (double)sent[i];
  }
  return whole > 0 ? sqrt(error / whole) : 0;
}

static uint64_t digest(uint64_t before, const void* bytes, size_t count) {
  const unsigned char* byte = bytes;
  for (size_t i = 0; i < count; ++i) before = (before ^ byte[i]) * 1099511628211U;
  return before;
}

/* Queries before V: only once the rows are chosen. */
static void choose_before(const rank_job* job, dit_transfer** transfers, int layer, dit_tensor source,
                          dit_tensor target) {
  const dit_transfer_call call = {
      .struct_size = sizeof call, .source = source, .target = target, .layer = layer, .step = ROWS_STAY_IN};
  CHECK(dit_transfer_start(transfers[DIT_SCATTER_QUERY], &call) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "dit_wire_choose_rows") != NULL);
  REQUIRE_OK(dit_wire_choose_rows(job->wire, layer, ROWS_STAY_IN, 0, &source));
}

/* One transfer of all layers and steps; V first, as its rows are chosen with it. */
static void run_steps(rank_job* job, dit_transfer** transfers, const dit_rank_part* part) {
  const dit_range all_heads = {0, HEADS}, all_tokens = {0, TEXT + TOKENS};
  const int order[] = {DIT_SCATTER_VALUE, DIT_SCATTER_QUERY, DIT_SCATTER_KEY};
  size_t source_bytes, target_bytes;
  REQUIRE_OK(dit_transfer_bytes(transfers[DIT_SCATTER_VALUE], &source_bytes, &target_bytes));
  float *source = allocate(source_bytes), *target = allocate(target_bytes),
        *expected = allocate(target_bytes);
  const dit_range tokens = {part->text_tokens.begin, part->text_tokens.end};
  for (int step = 0; step < STEPS; ++step) {
    for (int layer = 0; layer < LAYERS; ++layer) {
      fill(source, layer, step, tokens, all_heads);
      const dit_range image = {TEXT + part->image_tokens.begin, TEXT + part->image_tokens.end};
      fill(source + (tokens.end - tokens.begin) * HEADS * DIM, layer, step, image, all_heads);
      fill(expected, layer, step, all_tokens, part->heads);
      if (step == ROWS_STAY_IN && strncmp(job->policy, "v-major", 7) == 0) {
        choose_before(job, transfers, layer, dense(source, source_bytes), dense(target, target_bytes));
      }
      for (int i = 0; i < 3; ++i) {
        dit_transfer_call call = {.struct_size = sizeof call,
                                  .source = dense(source, source_bytes),
                                  .target = dense(target, target_bytes),
                                  .layer = layer,
                                  .step = step};
        memset(target, 0xff, target_bytes);
        REQUIRE_OK(dit_transfer_start(transfers[order[i]], &call));
        REQUIRE_OK(dit_transfer_wait(transfers[order[i]]));
        job->bits = digest(job->bits, target, target_bytes);
        const double now = distance(target, expected, target_bytes / sizeof(float));
        if (!(now <= job->worst)) job->worst = now;
      }
    }
  }
  free(expected);
  free(target);
  free(source);
}

static void* run_rank(void* argument) {
  rank_job* job = argument;
  dit_session* session = NULL;
  dit_layout* layout = NULL;
  dit_wire* wire = NULL;
  dit_transfer* transfers[3] = {NULL};
  unsigned char* workspaces[3];
  size_t bytes[3];
  dit_open_options open = {.struct_size = sizeof open, .timeout_seconds = 60};
  REQUIRE_OK(dit_local_group_member(job->group, job->rank, &open.communicator));
  REQUIRE_OK(dit_session_open("local", &open, &session));
  const dit_attention_shape shape = {sizeof shape, 1, TEXT, TOKENS, HEADS, HEADS, DIM, 0};
  REQUIRE_OK(dit_layout_create(&shape, RANKS, &layout));
  const dit_wire_options options = {.struct_size = sizeof options,
                                    .policy = job->policy,
                                    .layers = LAYERS,
                                    .steps = STEPS,
                                    .branches = 1,
                                    .groups = 1,
                                    .element_type = DIT_ELEMENT_FP32};
  REQUIRE_OK(dit_wire_create(session, layout, &options, &wire));
  job->wire = wire;
  REQUIRE_OK(dit_wire_memory_bytes(wire, &job->memory));
  REQUIRE_OK(dit_wire_share(wire, 1, &job->share));
  for (int kind = 0; kind < 3; ++kind) {
    const dit_transfer_options how = {
        .struct_size = sizeof how, .kind = kind, .groups = 1, .element_bytes = 4, .wire = wire};
    REQUIRE_OK(dit_transfer_create(session, layout, &how, &transfers[kind]));
    REQUIRE_OK(dit_transfer_workspace_bytes(transfers[kind], &bytes[kind]));
    workspaces[kind] = allocate(bytes[kind] + 1);
    workspaces[kind][bytes[kind]] = 77;
    if (kind > 0) REQUIRE_OK(dit_transfer_use_workspace(transfers[kind], workspaces[kind], bytes[kind]));
  }
  dit_exchange_totals before = {.struct_size = sizeof before}, after = {.struct_size = sizeof after};
  dit_rank_part part = {.struct_size = sizeof part};
  REQUIRE_OK(dit_layout_part(layout, job->rank, 0, 1, &part));
  REQUIRE_OK(dit_session_totals(session, &before));
  run_steps(job, transfers, &part);
  REQUIRE_OK(dit_session_totals(session, &after));
  job->slow_bytes = after.sent_bytes[1] - before.sent_bytes[1];
  const uint64_t bits = job->bits;
  job->bits = 0;
  REQUIRE_OK(dit_wire_forget(wire, NULL)); /* another image */
  run_steps(job, transfers, &part);
  CHECK(job->bits == bits);
  CHECK(dit_wire_free(&wire) == DIT_ERROR_ARGUMENT); /* has transfers */
  int pays = 7;
  REQUIRE_OK(dit_wire_pays(wire, 1, 1e3, &pays)); /* a kilobyte a second: any coding pays that saves bytes */
  CHECK(pays == 1);
  REQUIRE_OK(dit_wire_pays(wire, 1, 1e15, &pays));
  CHECK(pays == (job->share == 1)); /* faster than any memory */
  CHECK(dit_wire_pays(wire, 1, 0, &pays) == DIT_ERROR_ARGUMENT);
  CHECK(dit_wire_pays(wire, 2, 1e6, &pays) == DIT_ERROR_ARGUMENT);
  for (int kind = 0; kind < 3; ++kind) {
    REQUIRE_OK(dit_transfer_free(&transfers[kind]));
    CHECK(workspaces[kind][bytes[kind]] == 77);
    free(workspaces[kind]);
  }
  REQUIRE_OK(dit_wire_free(&wire));
  REQUIRE_OK(dit_layout_free(&layout));
  REQUIRE_OK(dit_session_close(&session));
  return NULL;
}

/* The worst error of any rank; bytes on slow links of all ranks and what all remember. */
static rank_job run_policy(const char* policy) {
  rank_job jobs[RANKS], sum = {.policy = policy};
  pthread_t threads[RANKS];
  dit_local_group* group = NULL;
  REQUIRE_OK(dit_local_group_create(RANKS, 2, &group));
  for (int rank = 0; rank < RANKS; ++rank) {
    jobs[rank] = (rank_job){.group = group, .policy = policy, .rank = rank};
    CHECK(pthread_create(&threads[rank], NULL, run_rank, &jobs[rank]) == 0);
  }
  for (int rank = 0; rank < RANKS; ++rank) {
    CHECK(pthread_join(threads[rank], NULL) == 0);
    if (!(jobs[rank].worst <= sum.worst)) sum.worst = jobs[rank].worst;
    sum.slow_bytes += jobs[rank].slow_bytes;
    sum.memory += jobs[rank].memory;
    sum.share = jobs[rank].share;
  }
  REQUIRE_OK(dit_local_group_free(&group));
  return sum;
}

static void test_policies(void) {
  const rank_job exact = run_policy("exact");
  CHECK(exact.worst == 0 && exact.memory == 0 && exact.share == 1);
  const struct {
    const char* policy;
    double most_error, most_share;
  } cases[] = {
      {"bf16", 0.004, 0.51},
      {"fp8", 0.05, 0.27},
      {"balanced", 0.05, 0.3},
      {"paper", 0.2, 0.99},
      {"v-major:warmup=2,refresh=4,ratio=0.5,format=bf16", 0.1, 0.5},
      {"{\"format\": \"dit-wire-policy\", \"version\": 1, \"rules\": [{\"mode\": \"residual int8\"}]}", 0.02,
       0.3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const rank_job got = run_policy(cases[i].policy);
    const double share = (double)got.slow_bytes / (double)exact.slow_bytes;
    const int remembers = strcmp(cases[i].policy, "bf16") != 0 && strcmp(cases[i].policy, "fp8") != 0;
    if (!(got.worst > 0 && got.worst < cases[i].most_error && share < cases[i].most_share &&
          (got.memory > 0) == remembers)) {
      fprintf(stderr, "%s: error %g, share %g, memory %llu\n", cases[i].policy, got.worst, share,
              (unsigned long long)got.memory);
      ++failures;
    }
  }
}

/* Of "balanced" with four steps on one rank, where nothing is coded: all steps are alike. */
static void test_steps_alike(dit_wire* wire) {
  int first = 7;
  for (int step = 0; step < 4; ++step) {
    REQUIRE_OK(dit_wire_first_alike(wire, step, 0, &first));
    CHECK(first >= 0 && first <= step);
  }
  CHECK(dit_wire_first_alike(wire, 4, 0, &first) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "step = 4: expected 0 to 3") != NULL);
  CHECK(dit_wire_first_alike(wire, 0, 0, NULL) == DIT_ERROR_ARGUMENT);
  CHECK(dit_wire_first_alike(NULL, 0, 0, &first) == DIT_ERROR_ARGUMENT);
  REQUIRE_OK(dit_wire_replayed(wire, 0));
  CHECK(dit_wire_replayed(wire, 2) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "branch = 2") != NULL);
}

/* Words for what is wrong, and order of calls. */
static void test_misuse(void) {
  dit_session* session = NULL;
  dit_layout* layout = NULL;
  dit_wire* wire = NULL;
  dit_transfer* transfer = NULL;
  const dit_attention_shape shape = {sizeof shape, 1, 0, 10, 4, 4, 8, 0};
  dit_wire_options options = {.struct_size = sizeof options,
                              .policy = "nonsense",
                              .layers = 3,
                              .steps = 4,
                              .branches = 1,
                              .groups = 1};
  REQUIRE_OK(dit_session_open("local", NULL, &session));
  REQUIRE_OK(dit_layout_create(&shape, 1, &layout));
  CHECK(dit_wire_create(session, layout, &options, &wire) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "nonsense") != NULL && strstr(dit_last_error(), "balanced") != NULL);
  CHECK(strstr(dit_wire_presets(), "balanced") != NULL);
  options.policy = "{\"format\": 5}";
  CHECK(dit_wire_create(session, layout, &options, &wire) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "format") != NULL);
  options.policy = "@/no/such/file";
  CHECK(dit_wire_create(session, layout, &options, &wire) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "/no/such/file") != NULL);
  options.policy = "balanced";
  options.element_type = DIT_ELEMENT_8_BIT;
  CHECK(dit_wire_create(session, layout, &options, &wire) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "element_type = 3") != NULL);
  options.element_type = DIT_ELEMENT_BF16;
  options.steps = 0;
  CHECK(dit_wire_create(session, layout, &options, &wire) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "steps = 0") != NULL);
  options.layers = 100000; /* places of a policy are counted before they are made */
  options.steps = 11;
  CHECK(dit_wire_create(session, layout, &options, &wire) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "steps = 11: expected 1 to 10") != NULL);
  options.layers = 3;
  options.steps = 4;
  CHECK(wire == NULL);
  REQUIRE_OK(dit_wire_create(session, layout, &options, &wire));
  char text[4000];
  size_t length = 0;
  REQUIRE_OK(dit_wire_text(wire, text, sizeof text, &length));
  CHECK(length < sizeof text && strlen(text) == length && strstr(text, "balanced") != NULL);
  dit_wire* again = NULL;
  options.policy = text;
  REQUIRE_OK(dit_wire_create(session, layout, &options, &again));
  REQUIRE_OK(dit_wire_free(&again));
  dit_transfer_options how = {.struct_size = sizeof how, .groups = 1, .element_bytes = 4, .wire = wire};
  CHECK(dit_transfer_create(session, layout, &how, &transfer) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "element_bytes = 4: expected the wire's 2") != NULL);
  how.element_bytes = 2;
  REQUIRE_OK(dit_transfer_create(session, layout, &how, &transfer));
  unsigned short numbers[10 * 4 * 8] = {0}, came[10 * 4 * 8];
  dit_transfer_call call = {.struct_size = sizeof call,
                            .source = dense(numbers, sizeof numbers),
                            .target = dense(came, sizeof came),
                            .layer = 3};
  CHECK(dit_transfer_start(transfer, &call) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "layer = 3: expected 0 to 2") != NULL);
  call.layer = 2;
  REQUIRE_OK(dit_transfer_start(transfer, &call));
  CHECK(dit_wire_forget(wire, NULL) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "under way") != NULL);
  REQUIRE_OK(dit_transfer_wait(transfer));
  REQUIRE_OK(dit_wire_forget(wire, NULL));
  CHECK(dit_wire_forget(NULL, NULL) == DIT_ERROR_ARGUMENT);
  test_steps_alike(wire);
  CHECK(dit_session_close(&session) == DIT_ERROR_ARGUMENT);
  REQUIRE_OK(dit_transfer_free(&transfer));
  CHECK(dit_session_close(&session) == DIT_ERROR_ARGUMENT); /* the wire */
  REQUIRE_OK(dit_wire_free(&wire));
  CHECK(wire == NULL);
  REQUIRE_OK(dit_layout_free(&layout));
  REQUIRE_OK(dit_session_close(&session));
}

int main(void) {
  test_policies();
  test_misuse();
  return failures > 0;
}
