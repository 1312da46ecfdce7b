/// What the far end of a block lacks, in host memory (loss_sums.hpp).
#pragma once

#include <cstddef>
#include <span>

#include "wire/codec.hpp"
#include "wire/loss_sums.hpp"

namespace dit {

/// Relative L2; infinite where all numbers are zeros and something else is remembered, NaN where one is.
[[nodiscard]] double relative(const BlockLoss& loss);

/// Of a block of as many numbers as are remembered.
[[nodiscard]] BlockLoss loss_of(std::span<const std::byte> block, WireElement element,
                                const WireReference& remembered,
                                const CodecKernels& kernels = fastest_codec_kernels());

}  // namespace dit
