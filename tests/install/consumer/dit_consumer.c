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
  const dit_transfer_options to_heads = {sizeof to_heads, DIT_SCATTER_QUERY, 0, 1, sizeof(float), "q"};
  const dit_transfer_options to_tokens = {sizeof to_tokens, DIT_GATHER_OUTPUT, 0, 1, sizeof(float), "o"};

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
  MUST(dit_transfer_start(scatter, tokens, sequence_bytes, heads, head_bytes, NULL));
  MUST(dit_transfer_wait(scatter));
  MUST(dit_transfer_start(gather, heads, head_bytes, again, sequence_bytes, NULL));
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
