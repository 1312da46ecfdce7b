/* Tensors of fp16 under policies: nothing overflows that did not, "bf16" costs no digits, and errors are
 * those of fp32. */
#include <math.h>

#include "local_ranks.h"

enum { TOKENS = 32, HEADS = 4, DIM = 64, STEPS = 20 };

static const char* policy;
static int largest;               /* whether numbers are fp16's largest */
static double fp16_off, fp32_off; /* relative L2, of rank 0 */

static float from_fp16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const float digits = (float)(bits & 1023);
  const float size = exponent == 31  ? (digits > 0 ? NAN : INFINITY)
                     : exponent == 0 ? ldexpf(digits, -24)
                                     : ldexpf(1024 + digits, exponent - 25);
  return bits >> 15 ? -size : size;
}

/* All numbers are fp16's: what two element types send is the same. */
static uint16_t bits_at(int64_t token, int64_t head, int64_t dim, int step) {
  if (largest)
    return (uint16_t)((token + dim) % 3 == 0 ? 0x7bff : (token + dim) % 3 == 1 ? 0xfbff : 0x3c00 + dim);
  const int wave =
      (int)(400 * sin(0.7 * (double)token + 1.3 * (double)head + 0.11 * (double)dim + 0.02 * step));
  return (uint16_t)(0x3c00 + 512 + wave);
}

static void fill(void* rows, int fp16, dit_range tokens, dit_range heads, int step) {
  size_t i = 0;
  for (int64_t token = tokens.begin; token < tokens.end; ++token)
    for (int64_t head = heads.begin; head < heads.end; ++head)
      for (int64_t dim = 0; dim < DIM; ++dim, ++i) {
        const uint16_t bits = bits_at(token, head, dim, step);
        if (fp16)
          ((uint16_t*)rows)[i] = bits;
        else
          ((float*)rows)[i] = from_fp16(bits);
      }
}

static double run_type(dit_session* session, int rank, int ranks, int fp16) {
  const size_t element_bytes = fp16 ? 2 : 4;
  const dit_range all_heads = {0, HEADS}, all_tokens = {0, TOKENS};
  dit_layout* layout = NULL;
  dit_wire* wire = NULL;
  const dit_attention_shape shape = {sizeof shape, 1, 0, TOKENS, HEADS, HEADS, DIM, 0};
  const dit_wire_options options = {.struct_size = sizeof options,
                                    .policy = policy,
                                    .layers = 1,
                                    .steps = STEPS,
                                    .branches = 1,
                                    .groups = 1,
                                    .element_type = fp16 ? DIT_ELEMENT_FP16 : DIT_ELEMENT_FP32};
  dit_rank_part part = {.struct_size = sizeof part};
  REQUIRE_OK(dit_layout_create(&shape, ranks, &layout));
  REQUIRE_OK(dit_layout_part(layout, rank, 0, 1, &part));
  REQUIRE_OK(dit_wire_create(session, layout, &options, &wire));
  wired value = make_wired(session, layout, wire, DIT_SCATTER_VALUE, 0, 1, element_bytes);
  void* expected = allocate(value.target_bytes);
  double error = 0, whole = 0;
  for (int step = 0; step < STEPS; ++step) {
    fill(value.source, fp16, part.image_tokens, all_heads, step);
    fill(expected, fp16, all_tokens, part.heads, step);
    REQUIRE_OK(start_at(&value, 0, step, 0));
    REQUIRE_OK(dit_transfer_wait(value.transfer));
    if (fp16 && strcmp(policy, "bf16") == 0) CHECK(memcmp(value.target, expected, value.target_bytes) == 0);
    for (size_t i = 0; i < value.target_bytes / element_bytes; ++i) {
      const double sent = fp16 ? from_fp16(((uint16_t*)expected)[i]) : ((float*)expected)[i];
      const double came = fp16 ? from_fp16(((uint16_t*)value.target)[i]) : ((float*)value.target)[i];
      error += (came - sent) * (came - sent);
      whole += sent * sent;
    }
  }
  free(expected);
  free_wired(&value);
  REQUIRE_OK(dit_wire_free(&wire));
  REQUIRE_OK(dit_layout_free(&layout));
  return sqrt(error / whole);
}

static void run(dit_session* session, int rank, int ranks) {
  const double of_fp16 = run_type(session, rank, ranks, 1);
  const double of_fp32 = run_type(session, rank, ranks, 0);
  if (rank != 0) return;
  fp16_off = of_fp16;
  fp32_off = of_fp32;
}

int main(void) {
  const char* policies[] = {"exact",    "bf16", "int8",  "fp8",       "fine", "good",
                            "balanced", "fast", "draft", "displaced", "paper"};
  for (size_t i = 0; i < sizeof policies / sizeof *policies; ++i) {
    for (largest = 0; largest < 2; ++largest) {
      policy = policies[i];
      on_local_ranks(2, 20, run);
      if (!(fp16_off <= 1.05 * fp32_off + 0.0005)) { /* half of fp16's last digit */
        fprintf(stderr, "%s, %s numbers: fp16 is off by %g, fp32 by %g\n", policy,
                largest ? "fp16's largest" : "moderate", fp16_off, fp32_off);
        ++failures;
      }
    }
  }
  return failures > 0;
}
