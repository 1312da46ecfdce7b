/* Scatters and gathers tagged tensors between the ranks of a plugin. */
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
  const dit_transfer_options options = {.struct_size = sizeof options,
                                        .kind = kind,
                                        .group = group,
                                        .groups = groups,
                                        .element_bytes = 4,
                                        .label = "test"};
  dit_transfer* transfer = NULL;
  REQUIRE_OK(dit_transfer_create(j->session, p->layout, &options, &transfer));
  return transfer;
}

static void run_tensors(dit_transfer* transfer, dit_tensor source, dit_tensor target) {
  int done = 0;
  REQUIRE_OK(start(transfer, source, target));
  REQUIRE_OK(dit_transfer_test(transfer, &done));
  REQUIRE_OK(dit_transfer_wait(transfer));
  REQUIRE_OK(dit_transfer_test(transfer, &done));
  CHECK(done == 1);
}

static void run(dit_transfer* transfer, void* source, void* target) {
  size_t source_bytes, target_bytes;
  REQUIRE_OK(dit_transfer_bytes(transfer, &source_bytes, &target_bytes));
  run_tensors(transfer, dense(source, source_bytes), dense(target, target_bytes));
}

static int head_tensor_is(const plan* p, const int32_t* tensor, int64_t heads, dit_range own,
                          dit_range tokens, int version) {
  for (int64_t sample = 0; sample < p->shape.batch; ++sample) {
    for (int64_t token = tokens.begin; token < tokens.end; ++token) {
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
                        int version) {
  const dit_range all = {0, tokens_of(p)};
  return kind == DIT_SCATTER_QUERY
             ? head_tensor_is(p, tensor, p->shape.heads, part->heads, part->query_tokens, version)
             : head_tensor_is(p, tensor, p->shape.kv_heads, part->kv_heads, all, version);
}

/* Scatters one part of the heads; gathers what came of the queries into `output`. */
static void scatter_and_gather(const job* j, const plan* p, int kind, int group, int groups,
                               int32_t* output) {
  dit_rank_part part = {.struct_size = sizeof part};
  REQUIRE_OK(dit_layout_part(p->layout, j->rank, group, groups, &part));
  int32_t* source =
      sequence_tensor(p, 0, kind == DIT_SCATTER_QUERY ? p->shape.heads : p->shape.kv_heads, j->rank);
  dit_transfer* scatter = make_transfer(j, p, kind, group, groups);
  size_t source_bytes, target_bytes, workspace_bytes;
  REQUIRE_OK(dit_transfer_workspace_bytes(scatter, &workspace_bytes));
  unsigned char* workspace = allocate(workspace_bytes + 1);
  workspace[workspace_bytes] = 77;
  if (workspace_bytes > 0) {
    CHECK(dit_transfer_use_workspace(scatter, workspace, workspace_bytes - 1) == DIT_ERROR_ARGUMENT);
  }
  if (group % 2 == 0) REQUIRE_OK(dit_transfer_use_workspace(scatter, workspace, workspace_bytes));
  REQUIRE_OK(dit_transfer_bytes(scatter, &source_bytes, &target_bytes));
  int32_t* target = allocate(target_bytes);
  memset(target, 0xff, target_bytes);
  run(scatter, source, target);
  CHECK(scattered_is(p, kind, &part, target, 0));
  if (kind == DIT_SCATTER_QUERY) {
    dit_transfer* gather = make_transfer(j, p, DIT_GATHER_OUTPUT, group, groups);
    run(gather, target, output);
    REQUIRE_OK(dit_transfer_free(&gather));
  }
  REQUIRE_OK(dit_transfer_free(&scatter));
  CHECK(scatter == NULL);
  CHECK(workspace[workspace_bytes] == 77);
  free(workspace);
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

/* Q, K and V are slices of one product [batch, rows, 3, heads, dim]; what comes has heads before rows. */
static void test_strides(const job* j, const plan* p) {
  if (p->shape.heads != p->shape.kv_heads) return;
  const int64_t rows = rows_of(p, j->rank), width = p->shape.heads * p->shape.head_dim;
  int32_t* product = allocate((size_t)(rows * 3 * width) * sizeof *product);
  for (int kind = DIT_SCATTER_QUERY; kind <= DIT_SCATTER_VALUE; ++kind) {
    int32_t* tensor = sequence_tensor(p, kind, p->shape.heads, j->rank);
    for (int64_t row = 0; row < rows; ++row) {
      memcpy(product + (row * 3 + kind) * width, tensor + row * width, (size_t)width * sizeof *tensor);
    }
    free(tensor);
  }
  for (int kind = DIT_SCATTER_QUERY; kind <= DIT_SCATTER_VALUE; ++kind) {
    dit_transfer* transfer = make_transfer(j, p, kind, 0, 1);
    int64_t from[4], to[4];
    size_t source_bytes, target_bytes;
    REQUIRE_OK(dit_transfer_shapes(transfer, from, to));
    REQUIRE_OK(dit_transfer_bytes(transfer, &source_bytes, &target_bytes));
    int32_t *target = allocate(target_bytes), *in_order = allocate(target_bytes);
    const dit_tensor source = {product + kind * width, (size_t)((rows * 3 - kind) * width) * 4,
                               from[1] * 3 * width, 3 * width, p->shape.head_dim};
    const dit_tensor heads_first = {target, target_bytes, to[1] * to[2] * to[3], to[3], to[1] * to[3]};
    run_tensors(transfer, rows > 0 ? source : dense(NULL, 0), heads_first);
    for (int64_t i = 0; i < to[0] * to[1] * to[2] * to[3]; ++i) {
      const int64_t dim = i % to[3], head = i / to[3] % to[2], row = i / (to[3] * to[2]) % to[1];
      const int64_t sample = i / (to[3] * to[2] * to[1]);
      in_order[i] = target[((sample * to[2] + head) * to[1] + row) * to[3] + dim];
    }
    CHECK(scattered_is(p, kind, &p->parts[j->rank], in_order, kind));
    REQUIRE_OK(dit_transfer_free(&transfer));
    free(in_order);
    free(target);
  }
  free(product);
}

/* Each rank starts its transfers in another order: each has its own channel. */
static void test_any_order(const job* j, const plan* p) {
  enum { COUNT = 3 };
  dit_transfer* transfers[COUNT];
  int32_t *sources[COUNT], *targets[COUNT];
  for (int kind = 0; kind < COUNT; ++kind) {
    size_t source_bytes, target_bytes;
    transfers[kind] = make_transfer(j, p, kind, 0, 1);
    REQUIRE_OK(dit_transfer_bytes(transfers[kind], &source_bytes, &target_bytes));
    sources[kind] =
        sequence_tensor(p, kind, kind == DIT_SCATTER_QUERY ? p->shape.heads : p->shape.kv_heads, j->rank);
    targets[kind] = allocate(target_bytes);
  }
  for (int i = 0; i < COUNT; ++i) {
    const int kind = j->rank % 2 == 0 ? (i + j->rank) % COUNT : COUNT - 1 - (i + j->rank) % COUNT;
    size_t source_bytes, target_bytes;
    REQUIRE_OK(dit_transfer_bytes(transfers[kind], &source_bytes, &target_bytes));
    REQUIRE_OK(
        start(transfers[kind], dense(sources[kind], source_bytes), dense(targets[kind], target_bytes)));
  }
  for (int kind = 0; kind < COUNT; ++kind) {
    REQUIRE_OK(dit_transfer_wait(transfers[kind]));
    CHECK(scattered_is(p, kind, &p->parts[j->rank], targets[kind], kind));
    REQUIRE_OK(dit_transfer_free(&transfers[kind]));
    free(sources[kind]);
    free(targets[kind]);
  }
}

/* V, Q and K in one call, then K and V, in turn; between nodes each call is one exchange. */
static void test_together(const job* j, const plan* p) {
  static const int sets[2][3] = {{DIT_SCATTER_VALUE, DIT_SCATTER_QUERY, DIT_SCATTER_KEY},
                                 {DIT_SCATTER_KEY, DIT_SCATTER_VALUE, -1}};
  dit_transfer* transfers[3];
  for (int kind = 0; kind < 3; ++kind) transfers[kind] = make_transfer(j, p, kind, 0, 1);
  for (int round = 0; round < 5; ++round) {
    const int* set = sets[round % 2];
    const size_t count = set[2] < 0 ? 2 : 3;
    dit_transfer* started[3];
    dit_transfer_call calls[3];
    int32_t *sources[3], *targets[3];
    for (size_t i = 0; i < count; ++i) {
      size_t source_bytes, target_bytes;
      started[i] = transfers[set[i]];
      REQUIRE_OK(dit_transfer_bytes(started[i], &source_bytes, &target_bytes));
      sources[i] = sequence_tensor(p, round + set[i],
                                   set[i] == DIT_SCATTER_QUERY ? p->shape.heads : p->shape.kv_heads, j->rank);
      targets[i] = allocate(target_bytes);
      memset(targets[i], 0xff, target_bytes);
      calls[i] = (dit_transfer_call){.struct_size = sizeof calls[i],
                                     .source = dense(sources[i], source_bytes),
                                     .target = dense(targets[i], target_bytes)};
    }
    REQUIRE_OK(dit_transfer_start_together(started, calls, count));
    for (size_t i = 0; i < count; ++i) { /* ranks wait in other orders */
      const size_t at = (i + (size_t)(j->rank + round)) % count;
      REQUIRE_OK(dit_transfer_wait(started[at]));
      CHECK(scattered_is(p, set[at], &p->parts[j->rank], targets[at], round + set[at]));
    }
    for (size_t i = 0; i < count; ++i) {
      free(sources[i]);
      free(targets[i]);
    }
  }
  for (int kind = 0; kind < 3; ++kind) REQUIRE_OK(dit_transfer_free(&transfers[kind]));
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
    test_strides(j, &p);
    test_any_order(j, &p);
    test_together(j, &p);
    if (failures > before) fprintf(stderr, "rank %d: shape %zu failed\n", j->rank, i);
    REQUIRE_OK(dit_layout_free(&p.layout));
    CHECK(p.layout == NULL);
  }
}

/* Halves of the ranks as sessions of their own. */
static void test_split(const job* j) {
  dit_session* part = NULL;
  int rank = -1, size = -1;
  REQUIRE_OK(dit_session_split(j->session, j->rank % 2, -j->rank, &part));
  REQUIRE_OK(dit_session_ranks(part, &rank, &size));
  CHECK(size == (j->size + 1 - j->rank % 2) / 2);
  CHECK(rank == (j->size - 1 - j->rank) / 2);
  dit_session* whole = j->session;
  CHECK(dit_session_close(&whole) == DIT_ERROR_ARGUMENT);
  const job half = {part, rank, size};
  const dit_attention_shape shape = {0, 1, 3, 20, 6, 6, 4, 0};
  plan p = make_plan(&half, shape);
  test_in_full(&half, &p, 1);
  REQUIRE_OK(dit_layout_free(&p.layout));
  REQUIRE_OK(dit_session_close(&part));
  REQUIRE_OK(dit_session_split(j->session, -1, 0, &part));
  CHECK(part == NULL);
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
  test_split(&j);
  test_session(&j);
  REQUIRE_OK(dit_session_close(&j.session));
  CHECK(j.session == NULL);
  if (j.rank == 0 && failures == 0) printf("%s: %d ranks passed\n", argv[1], j.size);
  return failures > 0;
}
