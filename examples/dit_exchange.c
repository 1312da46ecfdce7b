/* Attention of all heads over a sequence that is spread over ranks, from C: keys and values leave while the
 * queries are still being computed, and the output comes back to the rank of its tokens. mpirun -n 3
 * build/release/bin/examples/dit_exchange mpi */
#include <dit/dit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIM = 16, QUERY = 0, KEY = 1, VALUE = 2, OUTPUT = 3 };

static void must(dit_status status) {
  if (status == DIT_OK) return;
  fprintf(stderr, "%s\n", dit_last_error());
  exit(1);
}

static void start(dit_transfer* way, float* source, size_t source_bytes, float* target, size_t target_bytes) {
  const dit_transfer_call call = {.struct_size = sizeof call,
                                  .source = {source, source_bytes, 0, 0, 0},
                                  .target = {target, target_bytes, 0, 0, 0}};
  must(dit_transfer_start(way, &call));
}

/* Stands for a projection: any function of the token. */
static void project(float* rows, size_t bytes, int which, int64_t first_token, int64_t heads) {
  for (size_t i = 0; i < bytes / sizeof(float); ++i) {
    const int64_t token = first_token + (int64_t)i / (heads * DIM);
    rows[i] = sinf((float)(which + 1) * (float)token + (float)(i % (size_t)(heads * DIM)));
  }
}

/* o = softmax(q k^T / sqrt(dim)) v of one query and one head; `stride` between tokens. */
static void attend(const float* q, const float* k, const float* v, float* o, int64_t tokens, int64_t stride) {
  float sum = 0;
  for (int d = 0; d < DIM; ++d) o[d] = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    float score = 0;
    for (int d = 0; d < DIM; ++d) score += q[d] * k[t * stride + d];
    const float weight = expf(score / sqrtf(DIM));
    sum += weight;
    for (int d = 0; d < DIM; ++d) o[d] += weight * v[t * stride + d];
  }
  for (int d = 0; d < DIM; ++d) o[d] /= sum;
}

int main(int argc, char** argv) {
  const dit_attention_shape shape = {sizeof shape, 1, 0, 500, 10, 10, DIM, 0};
  dit_session* session = NULL;
  dit_layout* layout = NULL;
  dit_transfer* way[4] = {NULL};
  float *sent[4], *came[4]; /* the output's way is from `sent` in heads to `came` in tokens */
  size_t sent_bytes[4], came_bytes[4];
  int rank, ranks;
  must(dit_session_open(argc > 1 ? argv[1] : "local", NULL, &session));
  must(dit_session_ranks(session, &rank, &ranks));
  must(dit_layout_create(&shape, ranks, &layout));
  dit_rank_part part = {.struct_size = sizeof part};
  must(dit_layout_part(layout, rank, 0, 1, &part));
  for (int i = 0; i < 4; ++i) { /* dit_transfer_kind has the same order */
    const dit_transfer_options options = {.struct_size = sizeof options,
                                          .kind = i,
                                          .groups = 1,
                                          .element_bytes = sizeof(float),
                                          .label = "example"};
    must(dit_transfer_create(session, layout, &options, &way[i]));
    must(dit_transfer_bytes(way[i], &sent_bytes[i], &came_bytes[i]));
    sent[i] = malloc(sent_bytes[i] + 1);
    came[i] = malloc(came_bytes[i] + 1);
    if (sent[i] == NULL || came[i] == NULL) return 1;
  }

  for (int i = VALUE; i >= QUERY; --i) { /* values first: each travels while the next is computed */
    project(sent[i], sent_bytes[i], i, part.image_tokens.begin, shape.heads);
    start(way[i], sent[i], sent_bytes[i], came[i], came_bytes[i]);
  }
  for (int i = VALUE; i >= QUERY; --i) must(dit_transfer_wait(way[i]));

  const int64_t heads = part.heads.end - part.heads.begin, stride = heads * DIM;
  const int64_t queries = part.query_tokens.end - part.query_tokens.begin;
  for (int64_t i = 0; i < queries * heads; ++i) {
    const int64_t head = i % heads * DIM;
    attend(came[QUERY] + i * DIM, came[KEY] + head, came[VALUE] + head, sent[OUTPUT] + i * DIM,
           shape.image_tokens, stride);
  }
  start(way[OUTPUT], sent[OUTPUT], sent_bytes[OUTPUT], came[OUTPUT], came_bytes[OUTPUT]);
  must(dit_transfer_wait(way[OUTPUT]));

  double sum = 0;
  for (size_t i = 0; i < came_bytes[OUTPUT] / sizeof(float); ++i) sum += came[OUTPUT][i];
  printf("rank %d of %d: heads %d to %d, tokens %d to %d, sum of the output %.4f\n", rank, ranks,
         (int)part.heads.begin, (int)part.heads.end - 1, (int)part.image_tokens.begin,
         (int)part.image_tokens.end - 1, sum);
  for (int i = 0; i < 4; ++i) {
    must(dit_transfer_free(&way[i]));
    free(sent[i]);
    free(came[i]);
  }
  must(dit_layout_free(&layout));
  must(dit_session_close(&session));
  return 0;
}
