#include <cstdint>
#include <limits>

#include "dit/dit.h"
#include "transfer/device/prepare_team.hpp"

namespace dit {
namespace {

template <class Element, bool wide>
float all_squares(const TokenRow<Element, wide>& row, int head) {
  float lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = row.squares(head, lane);
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    for (int lane = 0; lane < distance; ++lane) lanes[lane] = sum(lanes[lane], lanes[lane + distance]);
  return lanes[0];
}

template <class Element, bool wide>
void prepare_row(const PrepareJob& job, int sample, int row) {
  const TokenRow<Element, wide> token(job, sample, row);
  float scale = 1;
  if (job.norm == Norm::token)
    scale = scale_of(all_squares(token, -1), job.heads * job.head_dim, job.epsilon);
  for (int head = 0; head < job.heads; ++head) {
    if (job.norm == Norm::head) scale = scale_of(all_squares(token, head), job.head_dim, job.epsilon);
    for (int lane = 0; lane < kLanes; ++lane) token.emit(head, scale, lane);
  }
}

template <class Element>
void prepare_rows(const PrepareJob& job) {
  const bool wide = is_wide(job, sizeof(Element));
  for (int sample = 0; sample < job.samples; ++sample)
    for (int row = 0; row < job.rows; ++row)
      wide ? prepare_row<Element, true>(job, sample, row) : prepare_row<Element, false>(job, sample, row);
}

}  // namespace

namespace {

bool aligned(const void* pointer, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
}

/// Whether the source, the targets and their strides are multiples of so many elements.
bool lies_in(const PrepareJob& job, std::size_t element_bytes, int elements) {
  const std::size_t unit = element_bytes * static_cast<std::size_t>(elements);
  const auto even = [&](std::int64_t stride) { return stride % elements == 0; };
  bool all = aligned(job.source, unit) && even(job.batch) && even(job.row) && even(job.head);
  for (int i = 0; i < job.parts; ++i) {
    const PreparePart& part = job.part[i];
    all = all && aligned(part.target, unit) && even(part.batch) && even(part.row) && even(part.head);
  }
  return all;
}

}  // namespace

bool is_wide(const PrepareJob& job, std::size_t element_bytes) {
  const std::size_t weight_unit = (job.weights_fp32 ? sizeof(float) : element_bytes) * kGroup;
  return job.head_dim % (job.rope == Rope::halves ? 2 * kGroup : kGroup) == 0 &&
         lies_in(job, element_bytes, kGroup) && aligned(job.weight, weight_unit) &&
         aligned(job.text_weight, weight_unit);
}

int team_lanes(const PrepareJob& job, std::size_t element_bytes) {
  const bool shape = job.head_dim == 32 || job.head_dim == 64 || job.head_dim == 128;
  const std::int64_t units = std::int64_t{job.samples} * job.rows * units_of_token(job);
  constexpr std::int64_t most =
      std::numeric_limits<int>::max() / 2;  // a step beyond the last is a number, too
  if (!shape || units > most || !is_wide(job, element_bytes)) return 0;
  const int elements = static_cast<int>(16 / element_bytes);
  const bool angles = aligned(job.cosine, 16) && aligned(job.sine, 16) &&
                      (job.angle_batch | job.angle_token | job.angle_head) % 4 == 0;
  return angles && lies_in(job, element_bytes, elements) ? job.head_dim / elements : 0;
}

void prepare_on_host(const PrepareJob& job, int element_type) {
  switch (element_type) {
    case DIT_ELEMENT_FP32:
      return prepare_rows<float>(job);
    case DIT_ELEMENT_BF16:
      return prepare_rows<Bf16>(job);
    default:
      return prepare_rows<Fp16>(job);
  }
}

}  // namespace dit
