/// Jobs of the device codecs from layouts: pure, no device.
#pragma once

#include <cstddef>

#include "layout/layout.hpp"
#include "wire/codec.hpp"
#include "wire/device/code_job.hpp"

namespace dit {

/// What a format's codes hold of numbers of an element.
[[nodiscard]] LaneFormat lane_format(WireFormat format, WireElement element);

/// A block of a tensor that begins at `tensor`. Throws std::length_error for blocks of 2^32 numbers or more,
/// and for blocks of more runs of rows than a BlockPlace has; std::invalid_argument for blocks that are not
/// of whole heads of a tensor with strides. That the block lies in the tensor is the caller's to check
/// (pack.hpp).
[[nodiscard]] BlockPlace place_of(const PeerBlock& block, WireElement element, std::byte* tensor,
                                  const TensorShape& shape, const TensorStrides& strides);
template <typename Byte>
[[nodiscard]] BlockPlace place_of(const PeerBlock& block, WireElement element,
                                  const StridedTensor<Byte>& tensor) {
  return place_of(block, element, const_cast<std::byte*>(tensor.bytes.data()), tensor.shape, tensor.strides);
}

/// The block's first `rows` rows, or, with BlockPlace::rows, as many of those.
[[nodiscard]] CodeJob job_of(WireFormat format, WireElement element, const BlockPlace& place,
                             std::int64_t rows, std::uint8_t* code);

/// Gives a job what is remembered of its block.
void give_memory(CodeJob& job, const ReferenceParts& reference, float momentum, bool residual);

}  // namespace dit
