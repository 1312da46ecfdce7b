#include "engine/step_cache.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <span>

namespace dit {

StepCache::StepCache(const Model& model, const OwnTokens& tokens, ExchangeContext* context, double threshold,
                     std::int64_t label, const at::TensorOptions& options)
    : sample_(model.forward_on(tokens)),
      context_(context),
      threshold_(threshold),
      label_(label),
      options_(options) {}

/// Over all ranks' tokens, in the order of the ranks: the same number everywhere.
double StepCache::change_of(const at::Tensor& input) const {
  std::array<double, 2> sums = {(input - input_).abs().sum().item<double>(),
                                input_.abs().sum().item<double>()};
  if (context_ != nullptr) {
    const std::vector<std::byte> all = context_->all_gather(std::as_bytes(std::span(sums)));
    sums = {0, 0};
    for (std::size_t at = 0; at < all.size(); at += sizeof(sums)) {
      std::array<double, 2> rank{};
      std::memcpy(rank.data(), all.data() + at, sizeof(rank));
      sums[0] += rank[0];
      sums[1] += rank[1];
    }
  }
  return sums[1] > 0 ? sums[0] / sums[1] : std::numeric_limits<double>::infinity();
}

bool StepCache::reuse(const at::Tensor& patches, double time, bool last) {
  sample_->prepare(patches.to(options_), time, label_);
  const at::Tensor input = sample_->attention_input(0).to(at::kFloat);
  const bool first = !input_.defined();
  changed_ += first ? 0 : change_of(input);
  input_ = input;
  const bool same = !first && !last && changed_ < threshold_;
  if (!same) {
    changed_ = 0;
  }
  return same;
}

}  // namespace dit
