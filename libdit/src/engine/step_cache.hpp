/// A step whose first block would see almost what it last saw takes the last answer.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>

#include "exchange/exchange.hpp"
#include "models/model.hpp"

namespace dit {

class StepCache {
 public:
  /// `tokens`: this rank's; `context`: all ranks of the image, which decide together; null for one rank.
  /// Model and context must outlive this.
  StepCache(const Model& model, const OwnTokens& tokens, ExchangeContext* context, double threshold,
            std::int64_t label, const at::TensorOptions& options);

  /// Whether the step at `time` with this rank's `patches` can take the last velocity: never the first one,
  /// and not the last one, whose answer is the image. Collective.
  [[nodiscard]] bool reuse(const at::Tensor& patches, double time, bool last);

 private:
  [[nodiscard]] double change_of(const at::Tensor& input) const;

  std::unique_ptr<SampleForward> sample_;
  ExchangeContext* context_;
  double threshold_;
  std::int64_t label_;
  at::TensorOptions options_;
  at::Tensor input_;    // of the first block, in the step before
  double changed_ = 0;  // since a velocity was computed
};

}  // namespace dit
