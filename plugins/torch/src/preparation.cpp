#include "preparation.hpp"

#include <sstream>
#include <stdexcept>

namespace dit::operators {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

void require_choice(const char* name, std::int64_t value) {
  if (value < 0 || value > 2) refuse(std::string(name) + " = " + std::to_string(value) + ": expected 0 to 2");
}

/// A dense tensor of so many numbers, where the exchange's memory is.
const at::Tensor& checked(const char* name, const at::Tensor& tensor, std::int64_t numbers,
                          const Attention& attention, bool element_too) {
  const bool type =
      tensor.scalar_type() == at::kFloat || (element_too && tensor.scalar_type() == attention.dtype());
  if (tensor.numel() != numbers || !type || !tensor.is_contiguous() ||
      tensor.device() != attention.torch_device()) {
    std::ostringstream words;
    words << name << " is a " << (tensor.is_contiguous() ? "" : "non-contiguous ") << "tensor "
          << tensor.sizes() << " of " << tensor.scalar_type() << " on " << tensor.device()
          << ": expected a contiguous tensor of " << numbers << " numbers of Float"
          << (element_too ? " or " : "") << (element_too ? c10::toString(attention.dtype()) : "") << " on "
          << attention.torch_device();
    refuse(words.str());
  }
  return tensor;
}

void require_absent(const char* name, const MaybeTensor& tensor, const char* choice) {
  if (tensor.has_value())
    refuse(std::string(name) + " is given with " + choice + " = 0: expected None, or a " + choice);
}

void add_norm(dit_prepare& how, const Preparation& given, const Attention& attention, const Sizes& source) {
  if (given.norm == DIT_NORM_NONE) {
    require_absent("weight", given.weight, "norm");
    require_absent("text_weight", given.text_weight, "norm");
    return;
  }
  const std::int64_t numbers = given.norm == DIT_NORM_HEAD ? source[3] : source[2] * source[3];
  how.weight_type = DIT_ELEMENT_FP32;
  if (given.text_weight.has_value() && !given.weight.has_value())
    refuse("weight is None and text_weight is not: expected both, or weight alone");
  if (!given.weight.has_value()) return;
  const at::Tensor& weight = checked("weight", *given.weight, numbers, attention, true);
  how.weight = weight.data_ptr();
  how.weight_type = weight.scalar_type() == at::kFloat ? DIT_ELEMENT_FP32 : attention.element_type;
  if (!given.text_weight.has_value()) return;
  const at::Tensor& text = checked("text_weight", *given.text_weight, numbers, attention, true);
  if (text.scalar_type() != weight.scalar_type())
    refuse(std::string("text_weight is of ") + c10::toString(text.scalar_type()) + ": expected " +
           c10::toString(weight.scalar_type()) + ", as weight is");
  how.text_weight = text.data_ptr();
}

bool are_own_angles(const at::Tensor& x, const Attention& attention, const Sizes& source) {
  const Sizes sizes = {source[0], source[1], source[2], source[3] / 2};
  const bool apart = x.dim() == 4 && x.stride(0) + x.stride(1) + x.stride(2) > 0;
  return apart && x.sizes() == at::IntArrayRef(sizes) && (x.stride(3) == 1 || sizes[3] == 1) &&
         x.scalar_type() == at::kFloat && x.device() == attention.torch_device();
}

/// Of each number of the source.
void add_own_angles(dit_prepare& how, const at::Tensor& cosine, const at::Tensor& sine,
                    const Attention& attention, const Sizes& source) {
  if (!are_own_angles(cosine, attention, source) || !are_own_angles(sine, attention, source) ||
      cosine.strides() != sine.strides()) {
    std::ostringstream words;
    words << "cosine and sine are tensors " << cosine.sizes() << " and " << sine.sizes() << " of "
          << cosine.scalar_type() << " on " << cosine.device() << " with strides " << cosine.strides()
          << " and " << sine.strides() << ": expected of both " << at::IntArrayRef(source)
          << ", with half of the last, of Float on " << attention.torch_device()
          << ", with the same strides, the last 1";
    refuse(words.str());
  }
  how.cosine = cosine.data_ptr<float>();
  how.sine = sine.data_ptr<float>();
  how.angle_batch_stride = cosine.stride(0);
  how.angle_row_stride = cosine.stride(1);
  how.angle_head_stride = cosine.stride(2);
}

void add_rope(dit_prepare& how, const Preparation& given, const Attention& attention, const Sizes& source) {
  if (given.rope == DIT_ROPE_NONE) {
    require_absent("cosine", given.cosine, "rope");
    require_absent("sine", given.sine, "rope");
    return;
  }
  if (!given.cosine.has_value() || !given.sine.has_value())
    refuse("cosine or sine is None with rope = " + std::to_string(given.rope) + ": expected both");
  if (given.cosine->dim() == 4) return add_own_angles(how, *given.cosine, *given.sine, attention, source);
  const std::int64_t numbers =
      (attention.shape.text_tokens + attention.shape.image_tokens) * (attention.shape.head_dim / 2);
  how.cosine = checked("cosine", *given.cosine, numbers, attention, false).data_ptr<float>();
  how.sine = checked("sine", *given.sine, numbers, attention, false).data_ptr<float>();
}

}  // namespace

std::optional<dit_prepare> to_prepare(const Preparation& given, const Attention& attention, int what,
                                      const Sizes& source) {
  require_choice("norm", given.norm);
  require_choice("rope", given.rope);
  dit_prepare how{};
  how.struct_size = sizeof how;
  how.element_type = attention.element_type;
  how.norm = static_cast<int>(given.norm);
  how.rope = static_cast<int>(given.rope);
  how.round_norm = given.round_norm ? 1 : 0;
  how.epsilon = given.epsilon;
  add_norm(how, given, attention, source);
  add_rope(how, given, attention, source);
  if (given.norm == DIT_NORM_NONE && given.rope == DIT_ROPE_NONE) return std::nullopt;
  if (what == DIT_GATHER_OUTPUT)
    refuse("norm = " + std::to_string(given.norm) + ", rope = " + std::to_string(given.rope) +
           ": expected 0 of the output (what = 3)");
  return how;
}

}  // namespace dit::operators
