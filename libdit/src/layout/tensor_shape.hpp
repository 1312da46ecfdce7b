/// How a [batch, rows, heads, head_dim] tensor lies in memory. A head's numbers of one row lie together;
/// batch, rows and heads have any strides, so that a slice of a fused QKV product, or a tensor with heads
/// before rows, is one.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace dit {

struct TensorShape {
  std::int64_t batch = 0;
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  bool operator==(const TensorShape&) const = default;
  [[nodiscard]] constexpr std::int64_t row_elements() const { return heads * head_dim; }
  [[nodiscard]] constexpr std::int64_t elements() const { return batch * rows * row_elements(); }
};

/// In elements.
struct TensorStrides {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t head = 0;
  bool operator==(const TensorStrides&) const = default;
};

/// One after the other, without gaps.
[[nodiscard]] constexpr TensorStrides dense_strides(const TensorShape& shape) {
  return {shape.rows * shape.row_elements(), shape.row_elements(), shape.head_dim};
}

/// Whether strides are those of a dense tensor wherever there is more than one to step over.
[[nodiscard]] constexpr bool is_dense(const TensorShape& shape, const TensorStrides& strides) {
  const TensorStrides dense = dense_strides(shape);
  return shape.elements() == 0 ||
         ((shape.batch == 1 || strides.batch == dense.batch) &&
          (shape.rows == 1 || strides.row == dense.row) && (shape.heads == 1 || strides.head == dense.head));
}

/// Elements from the first to one past the last; strides are not below 0.
[[nodiscard]] constexpr std::int64_t extent(const TensorShape& shape, const TensorStrides& strides) {
  return shape.elements() == 0 ? 0
                               : (shape.batch - 1) * strides.batch + (shape.rows - 1) * strides.row +
                                     (shape.heads - 1) * strides.head + shape.head_dim;
}

/// Whether a stride can lie between `count` things in memory: not below 0, and no address overflows.
[[nodiscard]] constexpr bool is_stride(std::int64_t stride, std::int64_t count) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4096;
  return stride >= 0 && (count <= 1 || stride <= kMost / (count - 1));
}

/// A tensor in memory that belongs to somebody else.
template <typename Byte>
struct StridedTensor {
  std::span<Byte> bytes;  ///< from its first element on
  TensorShape shape;
  TensorStrides strides;

  StridedTensor() = default;
  /// Dense, of a shape that is known elsewhere.
  template <typename Memory>
  // A StridedTensor is no span; NOLINTNEXTLINE(bugprone-forwarding-reference-overload)
  requires std::convertible_to<Memory&&, std::span<Byte>> StridedTensor(Memory&& dense) : bytes(dense) {}
  StridedTensor(std::span<Byte> memory, const TensorShape& of, const TensorStrides& lies)
      : bytes(memory), shape(of), strides(lies) {}
  [[nodiscard]] bool is_dense() const { return dit::is_dense(shape, strides); }
};
using SourceTensor = StridedTensor<const std::byte>;
using TargetTensor = StridedTensor<std::byte>;

}  // namespace dit
