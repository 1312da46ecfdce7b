/// One block of PixelDit, from top to bottom: what it is given, attention's inputs, what attention leaves,
/// and the feed-forward network.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "models/modules.hpp"
#include "models/tensor_map.hpp"

namespace dit {

/// What a time and a label say to every block.
struct PixelDitConditioning {
  at::Tensor six;   ///< [batch, 6, width]: shift, scale, gate of attention, then of the feed-forward
  at::Tensor last;  ///< [batch, 1, width]
};

class PixelDitBlock {
 public:
  /// Takes the tensors whose names begin with `prefix`, "blocks.3.".
  PixelDitBlock(const TensorMap& weights, const std::string& prefix, std::int64_t head_dim);

  /// x, h and results: [batch, tokens, width]; q, k, v and attended: [batch, tokens, heads, head_dim].
  [[nodiscard]] at::Tensor attention_input(const at::Tensor& x, const PixelDitConditioning& c) const;
  [[nodiscard]] at::Tensor value(const at::Tensor& h) const;
  [[nodiscard]] at::Tensor query(const at::Tensor& h, const RopeTable& rope) const;
  [[nodiscard]] at::Tensor key(const at::Tensor& h, const RopeTable& rope) const;
  /// No |q k^T| / sqrt(head_dim) is larger: RMS norms end at sqrt(head_dim) times the largest gain, and
  /// rotations keep lengths.
  [[nodiscard]] double most_score() const;
  [[nodiscard]] at::Tensor after_attention(const at::Tensor& x, const at::Tensor& attended,
                                           const PixelDitConditioning& c) const;
  [[nodiscard]] at::Tensor feed_forward(const at::Tensor& x, const PixelDitConditioning& c) const;

  /// All of it, on all tokens of an image.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, const PixelDitConditioning& c,
                                   const RopeTable& rope) const;

 private:
  [[nodiscard]] at::Tensor modulation(std::int64_t part, const PixelDitConditioning& c) const;
  [[nodiscard]] at::Tensor heads(const at::Tensor& x) const { return x.unflatten(-1, {-1, head_dim_}); }

  std::int64_t head_dim_;
  at::Tensor scale_shift_table_;  // [6, width]
  Linear to_q_;
  Linear to_k_;
  Linear to_v_;
  at::Tensor norm_q_;  // [head_dim]
  at::Tensor norm_k_;
  Linear to_out_;
  Linear ff_in_;
  Linear ff_out_;
};

}  // namespace dit
