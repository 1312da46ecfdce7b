/// Images as tokens: a token is a square patch of (channel, row, column), channel slowest; tokens are in
/// row-major order.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace dit {

/// [batch, channels, height, width] -> [batch, tokens, channels * patch * patch]. The patch divides height
/// and width.
[[nodiscard]] at::Tensor patchify(const at::Tensor& images, std::int64_t patch);
/// And back.
[[nodiscard]] at::Tensor unpatchify(const at::Tensor& patches, std::int64_t patch, std::int64_t height,
                                    std::int64_t width);

}  // namespace dit
