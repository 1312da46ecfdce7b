/// PixelDit: a class-conditional diffusion transformer on pixels. adaLN-single (PixArt), RMS norm of Q and K,
/// 2-D RoPE in interleaved pairs, rectified flow: the model predicts noise - image at x = (1 - t) image + t
/// noise.
///
/// Tokens are patches in row-major order; a patch is (channel, row, column), channel slowest. All functions
/// work on any subset of an image's tokens, given their positions; only attention mixes tokens.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "layout/layout.hpp"

namespace dit {

/// Tensors by checkpoint name.
using TensorMap = std::map<std::string, at::Tensor>;

struct PixelDitConfig {
  std::int64_t channels = 2;
  std::int64_t patch = 4;
  std::int64_t width = 256;
  std::int64_t heads = 16;
  std::int64_t head_dim = 16;
  std::int64_t layers = 9;
  std::int64_t classes = 12;  ///< label `classes` is the null label of classifier-free guidance
  std::int64_t mlp_ratio = 4;
  double rope_theta = 100.0;
  [[nodiscard]] std::int64_t patch_elements() const { return channels * patch * patch; }
  bool operator==(const PixelDitConfig&) const = default;
};
/// Throws std::invalid_argument that names the field, its value and what was expected.
void check(const PixelDitConfig& config);

/// Rotation of each token: exp(i angle), [tokens, head_dim / 2], complex fp32. The first half of the pairs
/// turns with the row, the second with the column.
struct RopeTable {
  at::Tensor turns;
};

/// What a time and a label say to every block.
struct Conditioning {
  at::Tensor six;   ///< [batch, 6, width]: shift, scale, gate of attention, then of the feed-forward
  at::Tensor last;  ///< [batch, 1, width]
};

class PixelDit {
 public:
  /// Every tensor of tensor_shapes(config) must be there, in that shape; throws std::invalid_argument that
  /// names the tensor, its shape and the expected one. Extra names are an error as well.
  PixelDit(const PixelDitConfig& config, TensorMap weights);

  /// The same check by itself.
  static void check_weights(const PixelDitConfig& config, const TensorMap& weights);

  /// Names and shapes of the checkpoint's tensors.
  [[nodiscard]] static std::map<std::string, std::vector<std::int64_t>> tensor_shapes(
      const PixelDitConfig& config);
  /// Weights to start training from: Xavier for linears, zero for what ends a residual branch. Seeded.
  [[nodiscard]] static TensorMap initial_weights(const PixelDitConfig& config, std::uint64_t seed);

  [[nodiscard]] const PixelDitConfig& config() const { return config_; }
  [[nodiscard]] const TensorMap& weights() const { return weights_; }
  void to(const at::TensorOptions& options);  ///< device and dtype of all weights

  /// t: [batch] in [0, 1]; labels: [batch], integers in [0, classes].
  [[nodiscard]] Conditioning condition(const at::Tensor& t, const at::Tensor& labels) const;
  /// Positions of tokens `tokens` of an image that is `columns` tokens wide.
  [[nodiscard]] RopeTable rope(Range tokens, std::int64_t columns) const;

  [[nodiscard]] at::Tensor embed(
      const at::Tensor& patches) const;  ///< [batch, tokens, patch_elements] -> width
  /// Per block, in order. x: [batch, tokens, width]; q, k, v: [batch, tokens, heads, head_dim].
  [[nodiscard]] at::Tensor attention_input(std::int64_t layer, const at::Tensor& x,
                                           const Conditioning& c) const;
  [[nodiscard]] at::Tensor value(std::int64_t layer, const at::Tensor& h) const;
  [[nodiscard]] at::Tensor query(std::int64_t layer, const at::Tensor& h, const RopeTable& rope) const;
  [[nodiscard]] at::Tensor key(std::int64_t layer, const at::Tensor& h, const RopeTable& rope) const;
  /// No |q k^T| / sqrt(head_dim) is larger: RMS norms end at sqrt(head_dim) times the largest gain, and
  /// rotations keep lengths.
  [[nodiscard]] double most_score(std::int64_t layer) const;
  [[nodiscard]] at::Tensor after_attention(std::int64_t layer, const at::Tensor& x,
                                           const at::Tensor& attended, const Conditioning& c) const;
  [[nodiscard]] at::Tensor feed_forward(std::int64_t layer, const at::Tensor& x, const Conditioning& c) const;
  [[nodiscard]] at::Tensor output(const at::Tensor& x,
                                  const Conditioning& c) const;  ///< -> patches of the velocity

  /// All of the above for whole images: [batch, channels, height, width] -> velocity of the same shape.
  [[nodiscard]] at::Tensor forward(const at::Tensor& images, const at::Tensor& t,
                                   const at::Tensor& labels) const;

  [[nodiscard]] at::Tensor patchify(
      const at::Tensor& images) const;  ///< [b, c, h, w] -> [b, tokens, patch_elements]
  [[nodiscard]] at::Tensor unpatchify(const at::Tensor& patches, std::int64_t height,
                                      std::int64_t width) const;

 private:
  [[nodiscard]] const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }
  [[nodiscard]] at::Tensor linear(const std::string& name, const at::Tensor& x) const;
  [[nodiscard]] at::Tensor modulation(std::int64_t layer, std::int64_t part, const Conditioning& c) const;
  [[nodiscard]] at::Tensor split_heads(const at::Tensor& x) const;

  PixelDitConfig config_;
  TensorMap weights_;
};

}  // namespace dit
