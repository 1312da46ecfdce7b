/* A user's program: scatters one tensor to heads over the plugin named by its argument, and gathers it again.
 */
#include <dit/dit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                               \
  do {                                           \
    if ((call) != DIT_OK) {                      \
      fprintf(stderr, "%s\n", dit_last_error()); \
      return 1;                                  \
    }                                            \
  } while (0)

int main(int argc, char** argv) {
  dit_session* session = NULL;
  dit_layout* layout = NULL;
  dit_transfer *scatter = NULL, *gather = NULL;
  int rank = 0, ranks = 0;
  size_t sequence_bytes = 0, head_bytes = 0;
  const dit_attention_shape shape = {sizeof shape, 1, 0, 100, 7, 7, 16, 0};
  const dit_transfer_options to_heads = {
      .struct_size = sizeof to_heads, .kind = DIT_SCATTER_QUERY, .groups = 1, .element_bytes = sizeof(float)};
  const dit_transfer_options to_tokens = {.struct_size = sizeof to_tokens,
                                          .kind = DIT_GATHER_OUTPUT,
                                          .groups = 1,
                                          .element_bytes = sizeof(float)};

  MUST(dit_session_open(argc > 1 ? argv[1] : "local", NULL, &session));
  MUST(dit_session_ranks(session, &rank, &ranks));
  MUST(dit_layout_create(&shape, ranks, &layout));
  MUST(dit_transfer_create(session, layout, &to_heads, &scatter));
  MUST(dit_transfer_create(session, layout, &to_tokens, &gather));
  MUST(dit_transfer_bytes(scatter, &sequence_bytes, &head_bytes));

  float* tokens = malloc(sequence_bytes);
  float* heads = malloc(head_bytes);
  float* again = calloc(1, sequence_bytes);
  for (size_t i = 0; i < sequence_bytes / sizeof(float); ++i) tokens[i] = (float)i + 0.5f;
  const dit_transfer_call there = {.struct_size = sizeof there,
                                   .source = {tokens, sequence_bytes, 0, 0, 0},
                                   .target = {heads, head_bytes, 0, 0, 0}};
  const dit_transfer_call back = {.struct_size = sizeof back,
                                  .source = {heads, head_bytes, 0, 0, 0},
                                  .target = {again, sequence_bytes, 0, 0, 0}};
  MUST(dit_transfer_start(scatter, &there));
  MUST(dit_transfer_wait(scatter));
  MUST(dit_transfer_start(gather, &back));
  MUST(dit_transfer_wait(gather));
  const int wrong = memcmp(tokens, again, sequence_bytes) != 0;
  printf("rank %d of %d: %s\n", rank, ranks, wrong ? "wrong" : "right");

  free(again);
  free(heads);
  free(tokens);
  MUST(dit_transfer_free(&gather));
  MUST(dit_transfer_free(&scatter));
  MUST(dit_layout_free(&layout));
  MUST(dit_session_close(&session));
  return wrong;
}
