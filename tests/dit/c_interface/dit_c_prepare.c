/* Norm and RoPE on the way: every token gets its own row of the tables and its own weight, whatever rank has
 * it; wrong settings are refused. */
#include <string.h>

#include "local_ranks.h"

enum { TEXT = 4, IMAGE = 9, TOKENS = TEXT + IMAGE, HEADS = 4, DIM = 4 };

static unsigned flags;
static int norm;

static int is_text(int64_t token) {
  return (flags & DIT_LAYOUT_IMAGE_FIRST) != 0 ? token >= IMAGE : token < TEXT;
}

/* All numbers are 1, whose norm is 1: what arrives is weight * cosine of the token. */
static float expected(int64_t token, int64_t head, int64_t i) {
  const int64_t number = norm == DIT_NORM_TOKEN ? head * DIM + i : i;
  const float weight = norm == DIT_NORM_NONE ? 1 : (float)(is_text(token) ? 100 + number : 2 + number);
  return weight * (float)(token + 1);
}

static dit_attention_shape shape_now(void) {
  const dit_attention_shape shape = {sizeof shape, 2, TEXT, IMAGE, HEADS, HEADS, DIM, flags};
  return shape;
}

static void run(dit_session* session, int rank, int ranks) {
  const dit_attention_shape shape = shape_now();
  dit_layout* layout = NULL;
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  wired query = make_wired(session, layout, NULL, DIT_SCATTER_QUERY, 0, 1, sizeof(float));
  dit_rank_part part = {.struct_size = sizeof part};
  REQUIRE_OK(dit_layout_part(layout, rank, 0, 1, &part));
  float *source = query.source, *target = query.target;
  float weight[HEADS * DIM], text_weight[HEADS * DIM], cosine[TOKENS * DIM / 2], sine[TOKENS * DIM / 2] = {0};
  for (int i = 0; i < HEADS * DIM; ++i) weight[i] = (float)(2 + i), text_weight[i] = (float)(100 + i);
  for (int i = 0; i < TOKENS * DIM / 2; ++i) cosine[i] = (float)(i / (DIM / 2) + 1);
  for (size_t i = 0; i < query.source_bytes / sizeof *source; ++i) source[i] = 1;
  dit_prepare how = {.struct_size = sizeof how,
                     .element_type = DIT_ELEMENT_FP32,
                     .norm = norm,
                     .rope = DIT_ROPE_HALVES,
                     .weight = weight,
                     .text_weight = text_weight,
                     .cosine = cosine,
                     .sine = sine};
  const dit_transfer_call call = {.struct_size = sizeof call,
                                  .source = dense(source, query.source_bytes),
                                  .target = dense(target, query.target_bytes),
                                  .prepare = &how};
  for (int again = 0; again < 2; ++again) {
    memset(target, 0, query.target_bytes);
    REQUIRE_OK(dit_transfer_start(query.transfer, &call));
    REQUIRE_OK(dit_transfer_wait(query.transfer));
    const int64_t own = part.heads.end - part.heads.begin;
    const int64_t queries = part.query_tokens.end - part.query_tokens.begin;
    for (int64_t at = 0; at < (int64_t)(query.target_bytes / sizeof *target); ++at) {
      const int64_t i = at % DIM, head = part.heads.begin + at / DIM % own;
      const int64_t token = part.query_tokens.begin + at / DIM / own % queries;
      CHECK(target[at] == expected(token, head, i));
    }
    CHECK(source[0] == 1);
  }
  free_wired(&query);
  REQUIRE_OK(dit_layout_free(&layout));
}

static pthread_barrier_t both;

/* Blocks lie together: late ranks read them right out of the dense copy, which a later start, or the end of
 * the transfer, leaves alone. */
static void given_up(dit_session* session, int rank, int ranks) {
  dit_layout* layout = NULL;
  const dit_attention_shape shape = {sizeof shape, 1, 0, ranks, ranks, ranks, DIM, 0};
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  wired key = make_wired(session, layout, NULL, DIT_SCATTER_KEY, 0, 1, sizeof(float));
  const dit_prepare how = {.struct_size = sizeof how};
  float* const targets = allocate(2 * key.target_bytes);
  for (int start = 0; start < 2; ++start) {
    if (rank != 0 && start == 0) pthread_barrier_wait(&both); /* rank 0 is through with both */
    float *source = key.source, *target = targets + (size_t)start * key.target_bytes / sizeof(float);
    for (size_t i = 0; i < key.source_bytes / sizeof(float); ++i) source[i] = (float)(start + 1);
    const dit_transfer_call now = {.struct_size = sizeof now,
                                   .source = dense(source, key.source_bytes),
                                   .target = dense(target, key.target_bytes),
                                   .prepare = &how};
    REQUIRE_OK(dit_transfer_start(key.transfer, &now));
    if (rank == 0) {
      REQUIRE_OK(dit_transfer_cancel(key.transfer, NULL, NULL));
    } else {
      REQUIRE_OK(dit_transfer_wait(key.transfer));
      for (size_t i = 0; i < key.target_bytes / sizeof(float); ++i) CHECK(target[i] == (float)(start + 1));
    }
  }
  if (rank == 0) {
    REQUIRE_OK(dit_transfer_free(&key.transfer));
    pthread_barrier_wait(&both);
  }
  pthread_barrier_wait(&both); /* the exchanges are done everywhere */
  free_wired(&key);
  free(targets);
  REQUIRE_OK(dit_layout_free(&layout));
}

static dit_transfer* transfer;
static dit_transfer_call call;

static void refused(const dit_prepare* how, const char* words) {
  call.prepare = how;
  CHECK(dit_transfer_start(transfer, &call) == DIT_ERROR_ARGUMENT);
  if (strcmp(dit_last_error(), words) != 0) {
    fprintf(stderr, "said: %s\nexpected: %s\n", dit_last_error(), words);
    ++failures;
  }
}

static void misuse(dit_session* session, int rank, int ranks) {
  const dit_attention_shape shape = shape_now();
  dit_layout* layout = NULL;
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  wired query = make_wired(session, layout, NULL, DIT_SCATTER_QUERY, 0, 1, sizeof(float));
  wired output = make_wired(session, layout, NULL, DIT_GATHER_OUTPUT, 0, 1, sizeof(float));
  call = (dit_transfer_call){.struct_size = sizeof call,
                             .source = dense(query.source, query.source_bytes),
                             .target = dense(query.target, query.target_bytes)};
  transfer = query.transfer;
  const dit_prepare good = {.struct_size = sizeof good};
  dit_prepare bad = good;
  bad.element_type = DIT_ELEMENT_8_BIT;
  refused(&bad, "dit_transfer_start: call->prepare->element_type = 3: expected 0 to 2");
  bad.element_type = DIT_ELEMENT_BF16;
  refused(
      &bad,
      "dit_transfer_start: call->prepare->element_type = 1: expected one of the transfer's element_bytes, 4");
  bad = good, bad.norm = 3;
  refused(&bad, "dit_transfer_start: call->prepare->norm = 3: expected 0 to 2");
  bad = good, bad.rope = -1;
  refused(&bad, "dit_transfer_start: call->prepare->rope = -1: expected 0 to 2");
  bad = good, bad.epsilon = -1;
  refused(&bad, "dit_transfer_start: call->prepare->epsilon = -1.000000: expected 0 or more");
  bad = good, bad.weight_type = DIT_ELEMENT_FP16;
  refused(&bad,
          "dit_transfer_start: call->prepare->weight_type = 2: expected DIT_ELEMENT_FP32 (0) or the "
          "element_type, 0");
  bad = good, bad.rope = DIT_ROPE_HALVES;
  refused(&bad, "dit_transfer_start: call->prepare->cosine is null");
  const float angle = 0;
  bad.cosine = bad.sine = &angle, bad.angle_head_stride = -1;
  refused(&bad, "dit_transfer_start: call->prepare has a stride of angles of -1: expected 0 or more");
  transfer = output.transfer;
  call.source = dense(output.source, output.source_bytes);
  call.target = dense(output.target, output.target_bytes);
  refused(&good, "dit_transfer_start: call->prepare is given: expected null for DIT_GATHER_OUTPUT");
  const dit_tensor target = dense(query.target, query.target_bytes);
  dit_registration* registration = NULL;
  REQUIRE_OK(
      dit_session_register(session, query.target, query.target_bytes, DIT_MEMORY_HOST, 0, &registration));
  CHECK(dit_transfer_bind(query.transfer, registration, &target) == DIT_ERROR_UNSUPPORTED);
  CHECK(dit_session_close(&session) == DIT_ERROR_ARGUMENT); /* there is a registration */
  REQUIRE_OK(dit_registration_free(&registration));
  CHECK(dit_session_register(session, query.target, query.target_bytes, DIT_MEMORY_CUDA, 0, &registration) ==
        DIT_ERROR_UNSUPPORTED);
  free_wired(&query);
  free_wired(&output);
  REQUIRE_OK(dit_layout_free(&layout));
  (void)rank;
}

int main(void) {
  const unsigned all_flags[] = {0, DIT_LAYOUT_IMAGE_FIRST, DIT_LAYOUT_TEXT_REPLICATED,
                                DIT_LAYOUT_IMAGE_FIRST | DIT_LAYOUT_TEXT_REPLICATED};
  for (size_t i = 0; i < sizeof all_flags / sizeof *all_flags; ++i) {
    flags = all_flags[i];
    for (norm = DIT_NORM_NONE; norm <= DIT_NORM_TOKEN; ++norm) {
      on_local_ranks(1, 20, run);
      on_local_ranks(3, 20, run);
      on_local_ranks(6, 20, run); /* more ranks than heads */
    }
  }
  flags = 0;
  pthread_barrier_init(&both, NULL, 2);
  on_local_ranks(2, 20, given_up);
  on_local_ranks(1, 20, misuse);
  return failures > 0;
}
