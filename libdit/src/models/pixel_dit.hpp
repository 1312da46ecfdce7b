/// PixelDit: a class-conditional diffusion transformer on pixels. adaLN-single (PixArt), RMS norm of Q and K,
/// 2-D RoPE in interleaved pairs, rectified flow: the model predicts noise - image at x = (1 - t) image + t
/// noise.
///
/// Tokens are patches (patches.hpp). All functions work on any subset of an image's tokens, given their
/// positions; only attention mixes tokens.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/model.hpp"
#include "models/pixel_dit_block.hpp"
#include "models/tensor_map.hpp"

namespace dit {

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
[[nodiscard]] ModelShape shape_of(const PixelDitConfig& config);

class PixelDit : public Model {
 public:
  /// The weights must be those of tensor_shapes(config): throws std::invalid_argument as check_weights does.
  PixelDit(const PixelDitConfig& config, TensorMap weights);

  /// Names and shapes of the checkpoint's tensors.
  [[nodiscard]] static TensorShapes tensor_shapes(const PixelDitConfig& config);
  /// Weights to start training from: Xavier for linears, zero for what ends a residual branch. Seeded.
  [[nodiscard]] static TensorMap initial_weights(const PixelDitConfig& config, std::uint64_t seed);

  [[nodiscard]] const PixelDitConfig& config() const { return config_; }
  [[nodiscard]] const TensorMap& weights() const { return weights_; }
  [[nodiscard]] const ModelShape& shape() const override { return shape_; }
  [[nodiscard]] std::unique_ptr<SampleForward> forward_on(const OwnTokens& tokens) const override;
  [[nodiscard]] double most_score(int layer) const override { return block(layer).most_score(); }

  /// t: [batch] in [0, 1]; labels: [batch], integers in [0, classes].
  [[nodiscard]] PixelDitConditioning condition(const at::Tensor& t, const at::Tensor& labels) const;
  /// Positions of tokens `tokens` of an image that is `columns` tokens wide: the first half of the pairs
  /// turns with the row, the second with the column.
  [[nodiscard]] RopeTable rope(Range tokens, std::int64_t columns) const;
  /// [batch, tokens, patch_elements] -> [batch, tokens, width].
  [[nodiscard]] at::Tensor embed(const at::Tensor& patches) const { return x_embedder_(patches); }
  [[nodiscard]] const PixelDitBlock& block(std::int64_t layer) const {
    return blocks_[static_cast<std::size_t>(layer)];
  }
  /// [batch, tokens, width] -> patches of the velocity.
  [[nodiscard]] at::Tensor output(const at::Tensor& x, const PixelDitConditioning& c) const;

  /// All of the above for whole images: [batch, channels, height, width] -> velocity of the same shape.
  [[nodiscard]] at::Tensor forward(const at::Tensor& images, const at::Tensor& t,
                                   const at::Tensor& labels) const;

 private:
  PixelDitConfig config_;
  ModelShape shape_;
  TensorMap weights_;
  Linear x_embedder_;
  Linear time_in_;
  Linear time_out_;
  Linear adaln_;
  std::vector<PixelDitBlock> blocks_;
  Linear proj_out_;
};

}  // namespace dit
