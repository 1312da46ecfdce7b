/* What ranks did not say alike fails on all of them, with words, and leaves the session good. */
#include "check.h"

static dit_session* session = NULL;
static int rank = 0, ranks = 0;

static void expect_refusal(const dit_layout* layout, const dit_transfer_options* options, const char* words) {
  dit_transfer* transfer = NULL;
  const dit_status status = dit_transfer_create(session, layout, options, &transfer);
  if (status != DIT_ERROR_ARGUMENT || strstr(dit_last_error(), words) == NULL || transfer != NULL) {
    fprintf(stderr, "rank %d: status %d, %s\n  expected %s\n", rank, (int)status, dit_last_error(), words);
    ++failures;
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const dit_open_options open = {sizeof open, NULL, 30, NULL};
  REQUIRE_OK(dit_session_open(argv[1], &open, &session));
  REQUIRE_OK(dit_session_ranks(session, &rank, &ranks));
  const int odd = rank == ranks - 1;
  dit_attention_shape shape = {sizeof shape, 1, 0, 12, 4, 4, 8, 0};
  dit_layout *layout = NULL, *other = NULL;
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  shape.image_tokens = 13;
  REQUIRE_OK(dit_layout_create(&shape, ranks, &other));

  const dit_transfer_options good = {.struct_size = sizeof good, .groups = 1, .element_bytes = 4};
  dit_transfer_options options = good;
  char words[100];
  options.element_bytes = odd ? 2 : 4;
  snprintf(words, sizeof words, "options->element_bytes = 2 on rank %d, 4 on rank 0", ranks - 1);
  expect_refusal(layout, &options, words);
  options = good;
  options.kind = odd ? DIT_SCATTER_KEY : DIT_SCATTER_QUERY;
  snprintf(words, sizeof words, "options->kind = 1 on rank %d, 0 on rank 0", ranks - 1);
  expect_refusal(layout, &options, words);
  options = good;
  snprintf(words, sizeof words, "shape->image_tokens = 13 on rank %d, 12 on rank 0", ranks - 1);
  expect_refusal(odd ? other : layout, &options, words);
  options.kind = odd ? 9 : 0; /* wrong on one rank only */
  expect_refusal(layout, &options, "options->kind = 9: expected 0 to 3");
  expect_refusal(odd ? NULL : layout, &good, "layout is null"); /* and the others do not wait */
  expect_refusal(layout, odd ? NULL : &good, "options is null");

  const dit_wire_options policy = {.struct_size = sizeof policy,
                                   .policy = odd ? "fp8" : "bf16",
                                   .layers = 2,
                                   .steps = 4,
                                   .branches = 1,
                                   .groups = 1};
  dit_wire* wire = NULL;
  CHECK(dit_wire_create(session, layout, &policy, &wire) == DIT_ERROR_ARGUMENT && wire == NULL);
  CHECK(strstr(dit_last_error(), "policy") != NULL);
  CHECK(dit_wire_create(session, layout, odd ? NULL : &policy, &wire) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "options is null") != NULL);

  dit_wire_options same = policy; /* two wires, and not all ranks take the same one */
  dit_wire* wires[2] = {NULL, NULL};
  same.policy = "bf16";
  REQUIRE_OK(dit_wire_create(session, layout, &same, &wires[0]));
  same.policy = "int8";
  REQUIRE_OK(dit_wire_create(session, layout, &same, &wires[1]));
  options = good;
  options.wire = wires[odd];
  expect_refusal(layout, &options, "the number of options->wire");
  options.wire = odd ? NULL : wires[0];
  expect_refusal(layout, &options, "the number of options->wire");
  REQUIRE_OK(dit_wire_free(&wires[0]));
  REQUIRE_OK(dit_wire_free(&wires[1]));

  dit_transfer* transfer = NULL; /* and all is well again */
  REQUIRE_OK(dit_transfer_create(session, layout, &good, &transfer));
  REQUIRE_OK(dit_transfer_free(&transfer));
  REQUIRE_OK(dit_layout_free(&layout));
  REQUIRE_OK(dit_layout_free(&other));
  REQUIRE_OK(dit_session_close(&session));
  return failures > 0;
}
