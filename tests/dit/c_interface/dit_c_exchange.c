/* Scatters and gathers tagged tensors between the ranks of a plugin, in full and with active rows only. */
#include "check.h"

typedef struct job {
  dit_session* session;
  int rank, size;
} job;

/* A layout with all ranks' parts. */
typedef struct plan {
  dit_attention_shape shape;
  dit_layout* layout;
  dit_rank_part parts[64];
} plan;

static int64_t tokens_of(const plan* p) {
  return p->shape.text_tokens + p->shape.image_tokens;
}

static int64_t rows_of(const plan* p, int rank) {
  return p->shape.batch * p->parts[rank].sequence_rows;
}

static plan make_plan(const job* j, dit_attention_shape shape) {
  plan p = {.shape = shape, .layout = NULL};
  p.shape.struct_size = sizeof p.shape;
  REQUIRE_OK(dit_layout_create(&p.shape, j->size, &p.layout));
  for (int r = 0; r < j->size; ++r) {
    p.parts[r].struct_size = sizeof p.parts[r];
    REQUIRE_OK(dit_layout_part(p.layout, r, 0, 1, &p.parts[r]));
  }
  return p;
}

/* The joint number of a row of a rank's sequence layout, and whether it is text. */
static int64_t token_of_row(const plan* p, int rank, int64_t row, int* text) {
  const dit_rank_part* part = &p->parts[rank];
  const int image_first = (p->shape.flags & DIT_LAYOUT_IMAGE_FIRST) != 0;
  const dit_range first = image_first ? part->image_tokens : part->text_tokens;
  const dit_range second = image_first ? part->text_tokens : part->image_tokens;
  const int64_t before_second = image_first ? p->shape.image_tokens : p->shape.text_tokens;
  const int in_first = row < first.end - first.begin;
  *text = in_first != image_first;
  return in_first ? first.begin + row : before_second + second.begin + row - (first.end - first.begin);
}

/* Unique for an element of a version of the joint tensor. */
static int32_t tag(const plan* p, int version, int64_t heads, int64_t sample, int64_t token, int64_t head,
                   int64_t dim) {
  const int64_t number = ((sample * tokens_of(p) + token) * heads + head) * p->shape.head_dim + dim;
  return (int32_t)(number + version * 10000000);
}

static int32_t* sequence_tensor(const plan* p, int version, int64_t heads, int rank) {
  int32_t* tensor = allocate((size_t)(rows_of(p, rank) * heads * p->shape.head_dim) * sizeof *tensor);
  int32_t* at = tensor;
  int text;
  for (int64_t sample = 0; sample < p->shape.batch; ++sample) {
    for (int64_t row = 0; row < p->parts[rank].sequence_rows; ++row) {
      const int64_t token = token_of_row(p, rank, row, &text);
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t dim = 0; dim < p->shape.head_dim; ++dim) {
          *at++ = tag(p, version, heads, sample, token, head, dim);
        }
      }
    }
  }
  return tensor;
}

static dit_transfer* make_transfer(const job* j, const plan* p, int kind, int group, int groups) {
  const dit_transfer_options options = {sizeof options, kind, group, groups, sizeof(int32_t), "test"};
  dit_transfer* transfer = NULL;
  REQUIRE_OK(dit_transfer_create(j->session, p->layout, &options, &transfer));
  return transfer;
}

static void run(dit_transfer* transfer, const void* source, void* target, const dit_active_rows* active) {
  size_t source_bytes, target_bytes;
  int done = 0;
  REQUIRE_OK(dit_transfer_bytes(transfer, &source_bytes, &target_bytes));
  REQUIRE_OK(dit_transfer_start(transfer, source, source_bytes, target, target_bytes, active));
  REQUIRE_OK(dit_transfer_test(transfer, &done));
  REQUIRE_OK(dit_transfer_wait(transfer));
  REQUIRE_OK(dit_transfer_test(transfer, &done));
  CHECK(done == 1);
}

/* versions[sample * tokens + token]: which one the row must have; null: 0. */
static int head_tensor_is(const plan* p, const int32_t* tensor, int64_t heads, dit_range own,
                          dit_range tokens, const int* versions) {
  for (int64_t sample = 0; sample < p->shape.batch; ++sample) {
    for (int64_t token = tokens.begin; token < tokens.end; ++token) {
      const int version = versions == NULL ? 0 : versions[sample * tokens_of(p) + token];
      for (int64_t head = own.begin; head < own.end; ++head) {
        for (int64_t dim = 0; dim < p->shape.head_dim; ++dim) {
          if (*tensor++ != tag(p, version, heads, sample, token, head, dim)) return 0;
        }
      }
    }
  }
  return 1;
}

/* The same for a part of the heads of what a scatter of this kind brought. */
static int scattered_is(const plan* p, int kind, const dit_rank_part* part, const int32_t* tensor,
                        const int* versions) {
  const dit_range all = {0, tokens_of(p)};
  return kind == DIT_SCATTER_QUERY
             ? head_tensor_is(p, tensor, p->shape.heads, part->heads, part->query_tokens, versions)
             : head_tensor_is(p, tensor, p->shape.kv_heads, part->kv_heads, all, versions);
}

/* Scatters one part of the heads; gathers what came of the queries into `output`. */
static void scatter_and_gather(const job* j, const plan* p, int kind, int group, int groups,
                               int32_t* output) {
  dit_rank_part part = {.struct_size = sizeof part};
  REQUIRE_OK(dit_layout_part(p->layout, j->rank, group, groups, &part));
  int32_t* source =
      sequence_tensor(p, 0, kind == DIT_SCATTER_QUERY ? p->shape.heads : p->shape.kv_heads, j->rank);
  dit_transfer* scatter = make_transfer(j, p, kind, group, groups);
  size_t source_bytes, target_bytes;
  REQUIRE_OK(dit_transfer_bytes(scatter, &source_bytes, &target_bytes));
  int32_t* target = allocate(target_bytes);
  memset(target, 0xff, target_bytes);
  run(scatter, source, target, NULL);
  CHECK(scattered_is(p, kind, &part, target, NULL));
  if (kind == DIT_SCATTER_QUERY) {
    dit_transfer* gather = make_transfer(j, p, DIT_GATHER_OUTPUT, group, groups);
    run(gather, target, output, NULL);
    REQUIRE_OK(dit_transfer_free(&gather));
  }
  REQUIRE_OK(dit_transfer_free(&scatter));
  CHECK(scatter == NULL);
  free(target);
  free(source);
}

/* All kinds of transfers, in head groups; the gathered output is the queries again. */
static void test_in_full(const job* j, const plan* p, int groups) {
  const size_t bytes = (size_t)(rows_of(p, j->rank) * p->shape.heads * p->shape.head_dim) * sizeof(int32_t);
  int32_t* output = allocate(bytes);
  memset(output, 0xff, bytes);
  for (int group = 0; group < groups; ++group) {
    for (int kind = DIT_SCATTER_QUERY; kind <= DIT_SCATTER_VALUE; ++kind) {
      scatter_and_gather(j, p, kind, group, groups, output);
    }
  }
  int32_t* queries = sequence_tensor(p, 0, p->shape.heads, j->rank);
  CHECK(memcmp(output, queries, bytes) == 0);
  free(queries);
  free(output);
}

/* Masks of all ranks after each chose about half of its rows. */
static uint8_t* choose_and_share(const job* j, const plan* p, size_t* masks_bytes) {
  const int64_t rows = rows_of(p, j->rank);
  float* scores = allocate((size_t)rows * sizeof *scores);
  for (int64_t row = 0; row < rows; ++row) {
    scores[row] = (float)((row * 7919 + j->rank * 31) % 101);
  }
  uint8_t* mask = allocate(dit_row_mask_bytes(rows));
  REQUIRE_OK(dit_choose_active_rows(scores, rows, 0.5, mask, dit_row_mask_bytes(rows)));
  *masks_bytes = 0;
  for (int r = 0; r < j->size; ++r) {
    *masks_bytes += dit_row_mask_bytes(rows_of(p, r));
  }
  uint8_t* masks = allocate(*masks_bytes);
  REQUIRE_OK(dit_share_masks(j->session, p->layout, mask, dit_row_mask_bytes(rows), masks, *masks_bytes));
  free(mask);
  free(scores);
  return masks;
}

/* Which version each joint row has at this rank after a full and a selective scatter. */
static int* expected_versions(const job* j, const plan* p, const uint8_t* masks) {
  int* versions = allocate((size_t)(p->shape.batch * tokens_of(p)) * sizeof *versions);
  const int replicated = (p->shape.flags & DIT_LAYOUT_TEXT_REPLICATED) != 0;
  for (int r = 0; r < j->size; ++r) {
    for (int64_t bit = 0; bit < rows_of(p, r); ++bit) {
      int text;
      const int64_t sample = bit / p->parts[r].sequence_rows;
      const int64_t token = token_of_row(p, r, bit % p->parts[r].sequence_rows, &text);
      const int active = masks[bit / 8] >> (bit % 8) & 1;
      if (text && replicated && r != j->rank) continue; /* everybody takes its own */
      versions[sample * tokens_of(p) + token] = r == j->rank || active;
    }
    masks += dit_row_mask_bytes(rows_of(p, r));
  }
  return versions;
}

/* A full scatter, then a new version of which only active rows travel: the others stay. */
static void test_active_rows(const job* j, const plan* p) {
  dit_active_rows active = {.struct_size = sizeof active, .boundary = 0};
  uint8_t* masks = choose_and_share(j, p, &active.masks_bytes);
  active.masks = masks;
  int* versions = expected_versions(j, p, masks);
  for (int kind = DIT_SCATTER_QUERY; kind <= DIT_SCATTER_VALUE; ++kind) {
    const int64_t heads = kind == DIT_SCATTER_QUERY ? p->shape.heads : p->shape.kv_heads;
    dit_transfer* scatter = make_transfer(j, p, kind, 0, 1);
    size_t source_bytes, target_bytes;
    REQUIRE_OK(dit_transfer_bytes(scatter, &source_bytes, &target_bytes));
    int32_t* target = allocate(target_bytes);
    for (int version = 0; version < 2; ++version) {
      int32_t* source = sequence_tensor(p, version, heads, j->rank);
      run(scatter, source, target, version == 0 ? NULL : &active);
      free(source);
    }
    CHECK(scattered_is(p, kind, &p->parts[j->rank], target, versions));
    REQUIRE_OK(dit_transfer_free(&scatter));
    free(target);
  }
  free(versions);
  free(masks);
}

static void test_shapes(const job* j) {
  const dit_attention_shape shapes[] = {
      {0, 1, 0, 64, 8, 8, 4, 0},   /* nothing special */
      {0, 2, 7, 41, 38, 19, 3, 0}, /* nothing divides anything */
      {0, 1, 5, 23, 7, 1, 2, DIT_LAYOUT_IMAGE_FIRST},
      {0, 2, 5, 23, 6, 3, 2, DIT_LAYOUT_TEXT_REPLICATED},
      {0, 1, 5, 23, 6, 6, 2, DIT_LAYOUT_TEXT_REPLICATED | DIT_LAYOUT_IMAGE_FIRST},
      {0, 1, 3, 17, 2, 1, 4, 0}, /* with more ranks: shared heads */
      {0, 1, 0, 1, 1, 1, 1, 0},  /* hardly anything */
      {0, 1, 0, 0, 3, 3, 2, 0}}; /* nothing at all */
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    plan p = make_plan(j, shapes[i]);
    const int before = failures;
    test_in_full(j, &p, 1);
    test_in_full(j, &p, 3);
    test_active_rows(j, &p);
    if (failures > before) fprintf(stderr, "rank %d: shape %zu failed\n", j->rank, i);
    REQUIRE_OK(dit_layout_free(&p.layout));
    CHECK(p.layout == NULL);
  }
}

/* The paper's rule, through the interface. */
static void test_v_major(void) {
  dit_v_major* rule = NULL;
  double mean = 0, ratio = -1;
  int full = -1;
  REQUIRE_OK(dit_v_major_create("v-major:warmup=5,refresh=10,ratio=linear", &rule));
  REQUIRE_OK(dit_v_major_mean_active(rule, 50, &mean));
  CHECK(mean > 0.5955 && mean < 0.5965);
  REQUIRE_OK(dit_v_major_decide(rule, 9, 50, &full, &ratio));
  CHECK(full == 1 && ratio == 0);
  REQUIRE_OK(dit_v_major_decide(rule, 13, 50, &full, &ratio));
  CHECK(full == 0 && ratio > 0.1999 && ratio < 0.2001);
  char text[16];
  size_t length = 0;
  REQUIRE_OK(dit_v_major_text(rule, text, sizeof text, &length));
  CHECK(strcmp(text, "v-major:warmup=") == 0);
  CHECK(length == strlen("v-major:warmup=5,refresh=10,ratio=linear"));
  REQUIRE_OK(dit_v_major_text(rule, NULL, 0, &length));
  REQUIRE_OK(dit_v_major_free(&rule));
  CHECK(rule == NULL);

  const float scores[] = {1, 9, 3, 9, 5, 6, 7, 8, 0};
  uint8_t mask[2] = {0xff, 0xff};
  CHECK(dit_row_mask_bytes(9) == 2 && dit_row_mask_bytes(0) == 0 && dit_row_mask_bytes(-1) == 0);
  REQUIRE_OK(dit_choose_active_rows(scores, 9, 0.5, mask, sizeof mask)); /* 5 of 9: rows 1, 3, 5, 6, 7 */
  CHECK(mask[0] == 0xea && mask[1] == 0);
}

static void test_session(const job* j) {
  int slow = -1, level = -1;
  const dit_exchange_plugin* plugin = NULL;
  dit_context* context = NULL;
  REQUIRE_OK(dit_session_level(j->session, "", &slow));
  REQUIRE_OK(dit_session_plugin(j->session, &plugin, &context));
  CHECK(slow == plugin->slow_level(context));
  CHECK(plugin->size(context) == j->size);
  REQUIRE_OK(dit_session_level(j->session, plugin->level_name(context, 0), &level));
  CHECK(level == 0);
  dit_exchange_totals totals = {.struct_size = sizeof totals};
  REQUIRE_OK(dit_session_totals(j->session, &totals));
  CHECK(totals.exchanges > 0);
  CHECK(totals.struct_size == sizeof totals);
}

int main(int argc, char** argv) {
  job j = {NULL, 0, 0};
  CHECK(argc == 2);
  CHECK(strcmp(dit_version(), "0.1.0") == 0);
  CHECK(strcmp(dit_last_error(), "") == 0);
  const dit_open_options options = {sizeof options, NULL, 60, NULL};
  REQUIRE_OK(dit_session_open(argv[1], &options, &j.session));
  REQUIRE_OK(dit_session_ranks(j.session, &j.rank, &j.size));
  test_shapes(&j);
  test_v_major();
  test_session(&j);
  REQUIRE_OK(dit_session_close(&j.session));
  CHECK(j.session == NULL);
  if (j.rank == 0 && failures == 0) printf("%s: %d ranks passed\n", argv[1], j.size);
  return failures > 0;
}
