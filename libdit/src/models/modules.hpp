/// Layers that transformers are made of.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "models/tensor_map.hpp"

namespace dit {

/// x weight^T + bias, over the last dimension.
struct Linear {
  at::Tensor weight;  ///< [out, in]
  at::Tensor bias;    ///< [out]
  /// Of the tensors NAME.weight and NAME.bias.
  Linear(const TensorMap& weights, const std::string& name);
  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const;
};
/// Its shapes under that name.
void add_linear(TensorShapes& shapes, const std::string& name, std::int64_t out, std::int64_t in);

/// Over the last dimension, without weights.
[[nodiscard]] at::Tensor layer_norm(const at::Tensor& x);
/// LayerNorm, then x (1 + scale) + shift.
[[nodiscard]] at::Tensor modulated_norm(const at::Tensor& x, const at::Tensor& shift,
                                        const at::Tensor& scale);
/// Over the last dimension, in fp32 and back.
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight);

/// Rotation of each token: exp(i angle), [tokens, head_dim / 2], complex fp32.
struct RopeTable {
  at::Tensor turns;
};
/// Turns pairs (2k, 2k+1) of each head, as complex numbers: x [batch, tokens, heads, head_dim].
[[nodiscard]] at::Tensor rotate(const at::Tensor& x, const RopeTable& rope);

/// Sinusoidal features of a time in [0, 1], [batch, 256]: cos and sin of 1000 t * 10000^(-i/128), i < 128
/// (diffusers' Timesteps, flip_sin_to_cos, no shift).
inline constexpr std::int64_t kTimeFeatures = 256;
[[nodiscard]] at::Tensor time_features(const at::Tensor& t);

}  // namespace dit
