/* Every misuse gets its status and its words, and leaves outputs alone. All ranks do the same. */
#include "check.h"

static void expect(int line, dit_status status, const char* words) {
  if (status != DIT_ERROR_ARGUMENT || strcmp(dit_last_error(), words) != 0) {
    fprintf(stderr, "line %d: status %d\n  got:      %s\n  expected: %s\n", line, (int)status,
            dit_last_error(), words);
    ++failures;
  }
}

#define WRONG(call, words) expect(__LINE__, (call), (words))

static dit_session* session = NULL;
static int ranks = 0, rank = 0;

static dit_attention_shape good_shape(void) {
  const dit_attention_shape shape = {sizeof shape, 1, 2, 10, 4, 4, 8, 0};
  return shape;
}

static void test_shapes(void) {
  dit_layout* layout = NULL;
  dit_attention_shape shape = good_shape();
  WRONG(dit_layout_create(NULL, 2, &layout), "dit_layout_create: shape is null");
  WRONG(dit_layout_create(&shape, 2, NULL), "dit_layout_create: layout is null");
  WRONG(dit_layout_create(&shape, -1, &layout), "dit_layout_create: ranks = -1: expected at least 1");
  shape.struct_size = 7;
  WRONG(dit_layout_create(&shape, 2, &layout),
        "dit_layout_create: shape->struct_size = 7: expected sizeof(dit_attention_shape), here 64");
  shape = good_shape();
  shape.flags = 9;
  WRONG(dit_layout_create(&shape, 2, &layout),
        "dit_layout_create: shape->flags = 9: expected a sum of some of 1, 2, 4 (dit_layout_flags)");
  shape = good_shape();
  shape.kv_heads = 3;
  WRONG(dit_layout_create(&shape, 2, &layout),
        "dit_layout_create: kv_heads = 3: expected a divisor of heads = 4");
  shape = good_shape();
  shape.flags = DIT_LAYOUT_ONE_RANK_A_HEAD;
  WRONG(
      dit_layout_create(&shape, 5, &layout),
      "dit_layout_create: ranks = 5: expected at most 4, the largest useful count: each rank attends for at "
      "least one of 4 heads");
  CHECK(layout == NULL);
  WRONG(dit_layout_free(NULL), "dit_layout_free: layout is null");
  REQUIRE_OK(dit_layout_free(&layout)); /* null already */
}

static void test_parts(void) {
  const dit_attention_shape shape = good_shape();
  dit_layout* layout = NULL;
  REQUIRE_OK(dit_layout_create(&shape, 3, &layout));
  dit_rank_part part = {.struct_size = sizeof part, .sequence_rows = -5};
  WRONG(dit_layout_part(NULL, 0, 0, 1, &part), "dit_layout_part: layout is null");
  WRONG(dit_layout_part(layout, 0, 0, 1, NULL), "dit_layout_part: part is null");
  WRONG(dit_layout_part(layout, 3, 0, 1, &part), "dit_layout_part: rank = 3: expected 0 to 2");
  WRONG(dit_layout_part(layout, 0, 1, 1, &part), "dit_layout_part: group = 1: expected 0 to 0");
  WRONG(dit_layout_part(layout, 0, 0, 0, &part), "dit_layout_part: groups = 0: expected at least 1");
  CHECK(part.sequence_rows == -5);
  part.struct_size = 0;
  WRONG(dit_layout_part(layout, 0, 0, 1, &part),
        "dit_layout_part: part->struct_size = 0: expected sizeof(dit_rank_part), here 96");
  REQUIRE_OK(dit_layout_free(&layout));
}

static void test_opening(const char* plugin) {
  dit_session* other = NULL;
  const dit_open_options options = {.struct_size = 4};
  WRONG(dit_session_open(NULL, NULL, &other), "dit_session_open: plugin is null");
  WRONG(dit_session_open(plugin, NULL, NULL), "dit_session_open: session is null");
  WRONG(dit_session_open(plugin, &options, &other),
        "dit_session_open: options->struct_size = 4: expected sizeof(dit_open_options), here 32");
  CHECK(dit_session_open("no-such-plugin", NULL, &other) != DIT_OK);
  CHECK(strstr(dit_last_error(), "no-such-plugin") != NULL);
  CHECK(other == NULL);
  WRONG(dit_session_close(NULL), "dit_session_close: session is null");
  REQUIRE_OK(dit_session_close(&other));
}

static void test_queries_of_sessions(void) {
  int number = 7;
  WRONG(dit_session_ranks(NULL, &number, &number), "dit_session_ranks: session is null");
  WRONG(dit_session_ranks(session, NULL, &number), "dit_session_ranks: rank is null");
  WRONG(dit_session_ranks(session, &number, NULL), "dit_session_ranks: size is null");
  WRONG(dit_session_level(NULL, "", &number), "dit_session_level: session is null");
  WRONG(dit_session_level(session, NULL, &number), "dit_session_level: name is null");
  WRONG(dit_session_level(session, "", NULL), "dit_session_level: level is null");
  CHECK(dit_session_level(session, "galaxy", &number) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "dit_session_level: ") == dit_last_error());
  CHECK(strstr(dit_last_error(), "galaxy") != NULL);
  CHECK(number == 7);
  dit_exchange_totals totals = {.struct_size = 1};
  WRONG(dit_session_status(NULL), "dit_session_status: session is null");
  WRONG(dit_session_totals(session, NULL), "dit_session_totals: totals is null");
  WRONG(dit_session_totals(session, &totals),
        "dit_session_totals: totals->struct_size = 1: expected sizeof(dit_exchange_totals), here 152");
  WRONG(dit_session_plugin(session, NULL, NULL), "dit_session_plugin: plugin is null");
}

static dit_transfer_options options_of(int kind) {
  const dit_transfer_options options = {
      .struct_size = sizeof options, .kind = kind, .groups = 1, .element_bytes = 4};
  return options;
}

static void test_creation_of_transfers(const dit_layout* layout) {
  char words[200];
  dit_transfer* transfer = NULL;
  dit_transfer_options options = options_of(4);
  WRONG(dit_transfer_create(NULL, layout, &options, &transfer), "dit_transfer_create: session is null");
  WRONG(dit_transfer_create(session, NULL, &options, &transfer), "dit_transfer_create: layout is null");
  WRONG(dit_transfer_create(session, layout, NULL, &transfer), "dit_transfer_create: options is null");
  WRONG(dit_transfer_create(session, layout, &options, NULL), "dit_transfer_create: transfer is null");
  WRONG(dit_transfer_create(session, layout, &options, &transfer),
        "dit_transfer_create: options->kind = 4: expected 0 to 3");
  options = options_of(DIT_SCATTER_KEY);
  options.group = 1;
  WRONG(dit_transfer_create(session, layout, &options, &transfer),
        "dit_transfer_create: options->group = 1: expected 0 to 0");
  options = options_of(DIT_SCATTER_KEY);
  options.element_bytes = 0;
  WRONG(dit_transfer_create(session, layout, &options, &transfer),
        "dit_transfer_create: options->element_bytes = 0: expected 1 to 1024");
  options.struct_size = 5;
  snprintf(words, sizeof words,
           "dit_transfer_create: options->struct_size = 5: expected sizeof(dit_transfer_options), here %zu",
           sizeof options);
  WRONG(dit_transfer_create(session, layout, &options, &transfer), words);
  options = options_of(DIT_SCATTER_KEY);
  options.memory_kind = DIT_MEMORY_CUDA;
  CHECK(dit_transfer_create(session, layout, &options, &transfer) == DIT_ERROR_UNSUPPORTED);
  CHECK(strstr(dit_last_error(), "memory_kind = 1") != NULL);
  CHECK(transfer == NULL);
  WRONG(dit_transfer_free(NULL), "dit_transfer_free: transfer is null");
  REQUIRE_OK(dit_transfer_free(&transfer));
}

static void test_layout_for_other_ranks(void) {
  const dit_attention_shape shape = good_shape();
  const dit_transfer_options options = options_of(DIT_SCATTER_KEY);
  dit_layout* larger = NULL;
  dit_transfer* transfer = NULL;
  char words[200];
  REQUIRE_OK(dit_layout_create(&shape, ranks + 1, &larger));
  snprintf(words, sizeof words, "dit_transfer_create: layout is for %d ranks: expected the session's %d",
           ranks + 1, ranks);
  WRONG(dit_transfer_create(session, larger, &options, &transfer), words);
  REQUIRE_OK(dit_layout_free(&larger));
}

static dit_status start_with(dit_transfer* transfer, void* source, size_t source_bytes, void* target,
                             size_t target_bytes) {
  return start(transfer, dense(source, source_bytes), dense(target, target_bytes));
}

static void test_starts(dit_transfer* transfer, void* source, size_t source_bytes, void* target,
                        size_t target_bytes) {
  char words[200];
  int64_t shape[4];
  WRONG(dit_transfer_bytes(transfer, NULL, &target_bytes), "dit_transfer_bytes: source_bytes is null");
  WRONG(dit_transfer_bytes(transfer, &source_bytes, NULL), "dit_transfer_bytes: target_bytes is null");
  WRONG(dit_transfer_shapes(transfer, NULL, shape), "dit_transfer_shapes: source is null");
  WRONG(dit_transfer_shapes(transfer, shape, NULL), "dit_transfer_shapes: target is null");
  WRONG(dit_transfer_start(transfer, NULL), "dit_transfer_start: call is null");
  WRONG(start_with(NULL, source, 1, target, 1), "dit_transfer_start: transfer is null");
  WRONG(start_with(transfer, NULL, source_bytes, target, target_bytes),
        "dit_transfer_start: call->source is null");
  WRONG(start_with(transfer, source, source_bytes, NULL, target_bytes),
        "dit_transfer_start: call->target is null");
  snprintf(words, sizeof words, "dit_transfer_start: call->source has 5 bytes: expected %zu", source_bytes);
  WRONG(start_with(transfer, source, 5, target, target_bytes), words);
  snprintf(words, sizeof words, "dit_transfer_start: call->target has 0 bytes: expected %zu", target_bytes);
  WRONG(start_with(transfer, source, source_bytes, target, 0), words);
  dit_transfer_call call = {.struct_size = 3};
  snprintf(words, sizeof words,
           "dit_transfer_start: call->struct_size = 3: expected sizeof(dit_transfer_call), here %zu",
           sizeof call);
  WRONG(dit_transfer_start(transfer, &call), words);
  call = (dit_transfer_call){.struct_size = sizeof call,
                             .source = {source, source_bytes, 0, -1, 1},
                             .target = dense(target, target_bytes)};
  WRONG(dit_transfer_start(transfer, &call),
        "dit_transfer_start: call->source.row_stride = -1: expected at least 0, within memory");
  const struct {
    dit_tensor target;
    const char* words;
  } overlaps[] = {{{target, target_bytes, 0, 0, 8}, "row_stride = 0"},
                  {{target, target_bytes, 0, 7, 8}, "row_stride = 7"},
                  {{target, target_bytes, 0, 8, 0}, "head_stride = 0"}};
  for (size_t i = 0; i < sizeof overlaps / sizeof *overlaps; ++i) {
    snprintf(words, sizeof words,
             "dit_transfer_start: call->target.%s: expected at least 8, as a target's numbers must not share "
             "memory",
             overlaps[i].words);
    call = (dit_transfer_call){
        .struct_size = sizeof call, .source = dense(source, source_bytes), .target = overlaps[i].target};
    WRONG(dit_transfer_start(transfer, &call), words);
  }
}

static void test_waits(dit_transfer** transfer, void* source, size_t source_bytes, void* target,
                       size_t target_bytes) {
  int done = 7;
  REQUIRE_OK(start_with(*transfer, source, source_bytes, target, target_bytes));
  WRONG(start_with(*transfer, source, source_bytes, target, target_bytes),
        "dit_transfer_start: transfer is under way: expected a wait before the next start");
  WRONG(dit_transfer_test(*transfer, NULL), "dit_transfer_test: done is null");
  WRONG(dit_transfer_test(NULL, &done), "dit_transfer_test: transfer is null");
  WRONG(dit_transfer_wait(NULL), "dit_transfer_wait: transfer is null");
  WRONG(dit_transfer_guarded(NULL, NULL), "dit_transfer_guarded: transfer is null");
  REQUIRE_OK(dit_transfer_wait(*transfer));
  REQUIRE_OK(dit_transfer_wait(*transfer)); /* nothing under way */
  WRONG(dit_session_close(&session),
        "dit_session_close: session has 1 transfers: expected that they are freed before");
  CHECK(session != NULL);
  memset(target, 0, target_bytes);
  REQUIRE_OK(start_with(*transfer, source, source_bytes, target, target_bytes));
  REQUIRE_OK(dit_transfer_free(transfer)); /* under way: waits */
  CHECK(*(const unsigned char*)target == 1);
}

static void test_transfers(const dit_layout* layout) {
  const dit_transfer_options options = options_of(DIT_SCATTER_KEY);
  dit_transfer* transfer = NULL;
  size_t source_bytes = 0, target_bytes = 0;
  REQUIRE_OK(dit_transfer_create(session, layout, &options, &transfer));
  REQUIRE_OK(dit_transfer_bytes(transfer, &source_bytes, &target_bytes));
  void* source = allocate(source_bytes);
  void* target = allocate(target_bytes);
  memset(source, 1, source_bytes);
  test_starts(transfer, source, source_bytes, target, target_bytes);
  test_waits(&transfer, source, source_bytes, target, target_bytes);
  free(target);
  free(source);
}

static void take_line(const char* line, void* user) {
  (void)line;
  ++*(int*)user;
}

int main(int argc, char** argv) {
  int lines = 0;
  CHECK(argc == 2);
  REQUIRE_OK(dit_set_log(take_line, &lines));
  test_shapes();
  test_parts();
  REQUIRE_OK(dit_session_open(argv[1], NULL, &session));
  REQUIRE_OK(dit_session_ranks(session, &rank, &ranks));
  test_opening(argv[1]);
  test_queries_of_sessions();
  const dit_attention_shape shape = good_shape();
  dit_layout* layout = NULL;
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  test_creation_of_transfers(layout);
  test_layout_for_other_ranks();
  test_transfers(layout);
  REQUIRE_OK(dit_layout_free(&layout));
  REQUIRE_OK(dit_session_close(&session));
  REQUIRE_OK(dit_set_log(NULL, NULL));
  return failures > 0;
}
