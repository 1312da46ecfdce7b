#include "c_interface/tensor.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace dit::c_interface {
namespace {

void require_stride(const char* tensor, const char* name, std::int64_t stride, std::int64_t count) {
  if (!is_stride(stride, count)) {
    throw std::invalid_argument(std::string(tensor) + "." + name + " = " + std::to_string(stride) +
                                ": expected at least 0, within memory");
  }
}

bool has_strides(const dit_tensor& tensor) {
  return tensor.batch_stride != 0 || tensor.row_stride != 0 || tensor.head_stride != 0;
}

TensorStrides strides_of(const char* name, const dit_tensor& tensor, const TensorShape& shape) {
  if (!has_strides(tensor)) {
    return dense_strides(shape);
  }
  require_stride(name, "batch_stride", tensor.batch_stride, shape.batch);
  require_stride(name, "row_stride", tensor.row_stride, shape.rows);
  require_stride(name, "head_stride", tensor.head_stride, shape.heads);
  return {tensor.batch_stride, tensor.row_stride, tensor.head_stride};
}

void require_memory(const char* name, const dit_tensor& tensor, const TensorShape& shape,
                    const TensorStrides& strides, std::size_t element_bytes) {
  const bool dense = !has_strides(tensor);
  const std::size_t expected = static_cast<std::size_t>(extent(shape, strides)) * element_bytes;
  if (dense ? tensor.bytes != expected : tensor.bytes < expected) {
    throw std::invalid_argument(std::string(name) + " has " + std::to_string(tensor.bytes) +
                                " bytes: expected " + (dense ? "" : "at least ") + std::to_string(expected));
  }
  if (expected > 0 && tensor.data == nullptr) {
    throw std::invalid_argument(std::string(name) + " is null");
  }
}

/// What is written must have a place of its own, in whatever order batch, rows and heads lie.
void require_apart(const char* name, const TensorShape& shape, const TensorStrides& strides) {
  struct Step {
    const char* name;
    std::int64_t stride, count;
  };
  std::array<Step, 3> steps = {{{"batch_stride", strides.batch, shape.batch},
                                {"row_stride", strides.row, shape.rows},
                                {"head_stride", strides.head, shape.heads}}};
  std::ranges::stable_sort(steps, {}, &Step::stride);
  std::int64_t reach = shape.elements() == 0 ? 0 : shape.head_dim;
  for (const Step& each : steps) {
    if (each.count <= 1) continue;
    if (each.stride < reach) {
      throw std::invalid_argument(std::string(name) + "." + each.name + " = " + std::to_string(each.stride) +
                                  ": expected at least " + std::to_string(reach) +
                                  ", as a target's numbers must not share memory");
    }
    reach += (each.count - 1) * each.stride;
  }
}

template <typename Byte>
StridedTensor<Byte> to_tensor(const char* name, const dit_tensor& tensor, const TensorShape& shape,
                              std::size_t element_bytes) {
  const TensorStrides strides = strides_of(name, tensor, shape);
  require_memory(name, tensor, shape, strides, element_bytes);
  return {{static_cast<Byte*>(tensor.data), tensor.bytes}, shape, strides};
}

}  // namespace

SourceTensor to_source(const char* name, const dit_tensor& tensor, const TensorShape& shape,
                       std::size_t element_bytes) {
  return to_tensor<const std::byte>(name, tensor, shape, element_bytes);
}

TargetTensor to_target(const char* name, const dit_tensor& tensor, const TensorShape& shape,
                       std::size_t element_bytes) {
  const TargetTensor target = to_tensor<std::byte>(name, tensor, shape, element_bytes);
  require_apart(name, shape, target.strides);
  return target;
}

void require_ranks(const UlyssesLayout& layout, int ranks) {
  if (layout.ranks() != ranks) {
    throw std::invalid_argument("layout is for " + std::to_string(layout.ranks()) +
                                " ranks: expected the session's " + std::to_string(ranks));
  }
}

void require_level(int level, int levels) {
  if (level < 0 || level >= levels) {
    throw std::invalid_argument("level = " + std::to_string(level) + ": expected 0 to " +
                                std::to_string(levels - 1));
  }
}

}  // namespace dit::c_interface
