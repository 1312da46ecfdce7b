/* A program that was compiled when structs were shorter, and one that was compiled when they will be longer.
 */
#include "check.h"

/* dit_transfer_options as it first was. */
typedef struct old_transfer_options {
  size_t struct_size;
  int kind, group, groups;
  size_t element_bytes;
  const char* label;
} old_transfer_options;

typedef struct old_open_options {
  size_t struct_size;
  void* communicator;
} old_open_options;

typedef struct old_rank_part {
  size_t struct_size;
  dit_range text_tokens, image_tokens;
  char behind[8];
} old_rank_part;

typedef struct new_attention_shape {
  dit_attention_shape known;
  int64_t more;
} new_attention_shape;

int main(void) {
  dit_session* session = NULL;
  dit_layout* layout = NULL;
  dit_transfer* transfer = NULL;
  const old_open_options open = {sizeof open, NULL};
  REQUIRE_OK(dit_session_open("local", (const dit_open_options*)(const void*)&open, &session));

  new_attention_shape shape = {{sizeof shape, 1, 0, 6, 2, 2, 4, 0}, 0};
  REQUIRE_OK(dit_layout_create(&shape.known, 1, &layout));
  REQUIRE_OK(dit_layout_free(&layout));
  shape.more = 7; /* means something that this library does not know */
  CHECK(dit_layout_create(&shape.known, 1, &layout) == DIT_ERROR_ARGUMENT);
  CHECK(strstr(dit_last_error(), "dit_attention_shape") != NULL && layout == NULL);
  shape.more = 0;
  REQUIRE_OK(dit_layout_create(&shape.known, 1, &layout));

  old_rank_part part = {.struct_size = offsetof(old_rank_part, behind), .behind = "kept it"};
  REQUIRE_OK(dit_layout_part(layout, 0, 0, 1, (dit_rank_part*)(void*)&part));
  CHECK(part.image_tokens.end == 6 && strcmp(part.behind, "kept it") == 0);
  CHECK(part.struct_size == offsetof(old_rank_part, behind));

  const old_transfer_options options = {sizeof options, DIT_SCATTER_VALUE, 0, 1, sizeof(float), "old"};
  REQUIRE_OK(
      dit_transfer_create(session, layout, (const dit_transfer_options*)(const void*)&options, &transfer));
  float from[48], to[48];
  for (int i = 0; i < 48; ++i) from[i] = (float)i;
  REQUIRE_OK(start(transfer, dense(from, sizeof from), dense(to, sizeof to)));
  REQUIRE_OK(dit_transfer_wait(transfer));
  CHECK(memcmp(from, to, sizeof from) == 0);
  REQUIRE_OK(dit_transfer_free(&transfer));
  REQUIRE_OK(dit_layout_free(&layout));
  REQUIRE_OK(dit_session_close(&session));
  return failures > 0;
}
