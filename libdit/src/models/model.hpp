/// What the engine knows of a model: its shape, the graph of its blocks, and what each step of that graph
/// does on some of an image's tokens. Attention, the only step that mixes tokens, is the engine's.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "layout/layout.hpp"
#include "models/attention.hpp"
#include "schedule/step_graph.hpp"

namespace dit {

/// Sizes of a model that makes images of a class, or of what else a label stands for.
struct ModelShape {
  std::int64_t channels = 0;  ///< of images
  std::int64_t patch = 0;     ///< side of a token's square, pixels
  std::int64_t classes = 0;   ///< label `classes` is the null label of classifier-free guidance
  std::int64_t width = 0;     ///< of the image's stream
  double mlp_ratio = 4;       ///< hidden layer of a block's MLP, in widths
  /// Of one sample in every block: heads, kv_heads, head_dim, and of a joint sequence the text tokens, their
  /// order and placement. The image's tokens are not the model's.
  AttentionShape attention;
  std::vector<Block> blocks;  ///< of each layer
  [[nodiscard]] int layers() const { return static_cast<int>(blocks.size()); }
  [[nodiscard]] std::int64_t patch_elements() const { return channels * patch * patch; }
};

/// The tokens that a rank holds in the sequence layout.
struct OwnTokens {
  Range text;                ///< numbered within the text
  Range image;               ///< numbered within the image, row by row
  std::int64_t columns = 0;  ///< of tokens in the whole image
};
[[nodiscard]] inline OwnTokens own_tokens(const UlyssesLayout& layout, int rank, std::int64_t columns) {
  return {layout.text_tokens(rank), layout.image_tokens(rank), columns};
}

/// A forward pass of one sample on a rank's tokens, step by step (StepRole). Rows of query, key, value and of
/// what attention gives are the rank's text and image tokens in the joint order, [1, rows, heads or kv_heads,
/// head_dim]. Query, key, value and mlp_in of a block are asked for in any order, each once.
class SampleForward {
 public:
  virtual ~SampleForward() = default;

  /// patches: of the rank's image tokens, [1, tokens, patch_elements], in the weights' type; time in [0, 1];
  /// label from 0 to `classes`.
  virtual void prepare(const at::Tensor& patches, double time, std::int64_t label) = 0;
  /// What a block's projections see, of the image at least. The engine asks for the first block's only, whose
  /// change from step to step is the step cache's measure.
  [[nodiscard]] virtual at::Tensor attention_input(int layer) = 0;
  [[nodiscard]] virtual at::Tensor query(int layer) = 0;
  [[nodiscard]] virtual at::Tensor key(int layer) = 0;
  [[nodiscard]] virtual at::Tensor value(int layer) = 0;
  /// Takes what attention gave: output projection, residual. Ends a block whose MLP is beside attention.
  virtual void finish(int layer, const at::Tensor& attended) = 0;
  /// Ends the other blocks.
  virtual void mlp(int layer) = 0;
  /// Of blocks whose MLP is beside attention. A model without such blocks leaves them as they are.
  virtual void mlp_in(int layer);
  virtual void mlp_out(int layer);
  /// The image's stream after a block, [1, image tokens, width].
  [[nodiscard]] virtual at::Tensor image_stream() const = 0;
  /// The flow's velocity, [1, image tokens, patch_elements].
  [[nodiscard]] virtual at::Tensor last() = 0;
};

/// A model with its weights. Immutable; used by one thread at a time.
class Model {
 public:
  virtual ~Model() = default;
  [[nodiscard]] virtual const ModelShape& shape() const = 0;
  /// A pass for these tokens; it can be prepared again and again. The model must outlive it.
  [[nodiscard]] virtual std::unique_ptr<SampleForward> forward_on(const OwnTokens& tokens) const = 0;
  /// No |q k^T| / sqrt(head_dim) of the layer is larger; infinite where nothing is known.
  [[nodiscard]] virtual double most_score(int layer) const;
};

}  // namespace dit
