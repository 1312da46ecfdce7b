#include "c_interface/prepare.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "c_interface/error.hpp"

namespace dit::c_interface {
namespace {

void require_one_of(const char* name, int value, int least, int most) {
  if (value < least || value > most) {
    throw std::invalid_argument("call->prepare->" + std::string(name) + " = " + std::to_string(value) +
                                ": expected " + std::to_string(least) + " to " + std::to_string(most));
  }
}

void check(const dit_prepare& prepare, const TensorShape& shape, std::size_t element_bytes) {
  require_one_of("element_type", prepare.element_type, DIT_ELEMENT_FP32, DIT_ELEMENT_FP16);
  const std::size_t bytes = prepare.element_type == DIT_ELEMENT_FP32 ? 4 : 2;
  if (bytes != element_bytes) {
    throw std::invalid_argument("call->prepare->element_type = " + std::to_string(prepare.element_type) +
                                ": expected one of the transfer's element_bytes, " +
                                std::to_string(element_bytes));
  }
  require_one_of("norm", prepare.norm, DIT_NORM_NONE, DIT_NORM_TOKEN);
  require_one_of("rope", prepare.rope, DIT_ROPE_NONE, DIT_ROPE_HALVES);
  require_one_of("round_norm", prepare.round_norm, 0, 1);
  if (!(prepare.epsilon >= 0) || prepare.epsilon > static_cast<double>(std::numeric_limits<float>::max())) {
    throw std::invalid_argument("call->prepare->epsilon = " + std::to_string(prepare.epsilon) +
                                ": expected 0 or more");
  }
  if (prepare.weight_type != DIT_ELEMENT_FP32 && prepare.weight_type != prepare.element_type) {
    throw std::invalid_argument("call->prepare->weight_type = " + std::to_string(prepare.weight_type) +
                                ": expected DIT_ELEMENT_FP32 (0) or the element_type, " +
                                std::to_string(prepare.element_type));
  }
  if (prepare.rope == DIT_ROPE_NONE) {
    return;
  }
  if (shape.head_dim % 2 != 0) {
    throw std::invalid_argument("call->prepare->rope = " + std::to_string(prepare.rope) +
                                ": expected DIT_ROPE_NONE (0) with a head_dim of " +
                                std::to_string(shape.head_dim));
  }
  if (shape.rows > 0) {
    (void)required(prepare.cosine, "call->prepare->cosine");
    (void)required(prepare.sine, "call->prepare->sine");
  }
  const std::int64_t least =
      std::min({prepare.angle_batch_stride, prepare.angle_row_stride, prepare.angle_head_stride});
  if (least < 0) {
    throw std::invalid_argument("call->prepare has a stride of angles of " + std::to_string(least) +
                                ": expected 0 or more");
  }
}

int to_int(std::int64_t value, const char* name) {
  if (value > std::numeric_limits<int>::max()) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) + ": expected at most " +
                                std::to_string(std::numeric_limits<int>::max()));
  }
  return static_cast<int>(value);
}

/// Which rows are text, and which tokens of the joint sequence rows are.
void place_tokens(PrepareJob& job, const UlyssesLayout& layout, int rank) {
  const AttentionShape& shape = layout.shape();
  const Range text = layout.text_tokens(rank);
  const Range image = layout.image_tokens(rank);
  const bool text_first = shape.order == JointOrder::text_image;
  job.text_begin = static_cast<int>(text_first ? 0 : image.size());
  job.text_end = job.text_begin + static_cast<int>(text.size());
  job.text_token = text.begin - job.text_begin + (text_first ? 0 : shape.image_tokens);
  job.image_token = image.begin + (text_first ? shape.text_tokens - text.size() : 0);
  job.angle_token = shape.head_dim / 2;
}

/// Where the angles of a number are: with strides a row's own, else its token's.
void place_angles(PrepareJob& job, const dit_prepare& prepare) {
  job.cosine = prepare.cosine;
  job.sine = prepare.sine;
  if (prepare.angle_batch_stride == 0 && prepare.angle_row_stride == 0 && prepare.angle_head_stride == 0) {
    return;
  }
  job.angle_batch = prepare.angle_batch_stride;
  job.angle_token = prepare.angle_row_stride;
  job.angle_head = prepare.angle_head_stride;
  job.text_token = job.image_token = 0;
}

}  // namespace

PrepareJob job_of(const dit_prepare* prepare, const UlyssesLayout& layout, AttentionTensor tensor, int rank,
                  const SourceTensor& source, std::size_t element_bytes) {
  const TensorShape shape = layout.sequence_shape(tensor, rank);
  PrepareJob job{};
  job.source = source.bytes.data();
  job.batch = source.strides.batch;
  job.row = source.strides.row;
  job.head = source.strides.head;
  job.samples = to_int(shape.batch, "batch");
  job.rows = to_int(shape.rows, "rows");
  job.heads = to_int(shape.heads, "heads");
  job.head_dim = to_int(shape.head_dim, "head_dim");
  if (prepare == nullptr) {
    return job;
  }
  check(*prepare, shape, element_bytes);
  job.norm = static_cast<Norm>(prepare->norm);
  job.rope = static_cast<Rope>(prepare->rope);
  job.round_norm = prepare->round_norm != 0;
  job.weights_fp32 = prepare->weight_type == DIT_ELEMENT_FP32;
  job.epsilon = static_cast<float>(prepare->epsilon);
  job.weight = prepare->weight;
  job.text_weight = prepare->text_weight != nullptr ? prepare->text_weight : prepare->weight;
  place_tokens(job, layout, rank);
  place_angles(job, *prepare);
  return job;
}

int element_type_of(std::size_t element_bytes) {
  if (element_bytes != 2 && element_bytes != 4) {
    throw std::invalid_argument("a transfer has element_bytes = " + std::to_string(element_bytes) +
                                ": expected 2 or 4 for a bound target");
  }
  return element_bytes == 2 ? DIT_ELEMENT_BF16 : DIT_ELEMENT_FP32;
}

void add_dense_part(PrepareJob& job, std::byte* target) {
  const std::int64_t row = static_cast<std::int64_t>(job.heads) * job.head_dim;
  job.part[job.parts++] = {target, job.rows * row, row, job.head_dim, 0, job.rows, 0, job.heads};
}

}  // namespace dit::c_interface
