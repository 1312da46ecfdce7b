#include "models/pixel_dit_block.hpp"

#include <ATen/core/grad_mode.h>

#include <cmath>

#include "models/attention.hpp"

namespace dit {

PixelDitBlock::PixelDitBlock(const TensorMap& weights, const std::string& prefix, std::int64_t head_dim)
    : head_dim_(head_dim),
      scale_shift_table_(weights.at(prefix + "scale_shift_table")),
      to_q_(weights, prefix + "attn.to_q"),
      to_k_(weights, prefix + "attn.to_k"),
      to_v_(weights, prefix + "attn.to_v"),
      norm_q_(weights.at(prefix + "attn.norm_q.weight")),
      norm_k_(weights.at(prefix + "attn.norm_k.weight")),
      to_out_(weights, prefix + "attn.to_out"),
      ff_in_(weights, prefix + "ff.net.0.proj"),
      ff_out_(weights, prefix + "ff.net.2") {}

at::Tensor PixelDitBlock::modulation(std::int64_t part, const PixelDitConditioning& c) const {
  return scale_shift_table_.select(0, part) + c.six.narrow(1, part, 1);
}

at::Tensor PixelDitBlock::attention_input(const at::Tensor& x, const PixelDitConditioning& c) const {
  return modulated_norm(x, modulation(0, c), modulation(1, c));
}

at::Tensor PixelDitBlock::value(const at::Tensor& h) const {
  return heads(to_v_(h));
}

at::Tensor PixelDitBlock::query(const at::Tensor& h, const RopeTable& rope) const {
  return rotate(rms_norm(heads(to_q_(h)), norm_q_), rope);
}

at::Tensor PixelDitBlock::key(const at::Tensor& h, const RopeTable& rope) const {
  return rotate(rms_norm(heads(to_k_(h)), norm_k_), rope);
}

double PixelDitBlock::most_score() const {
  const auto largest = [](const at::Tensor& gains) { return gains.abs().max().item<double>(); };
  return std::sqrt(static_cast<double>(head_dim_)) * largest(norm_q_) * largest(norm_k_);
}

at::Tensor PixelDitBlock::after_attention(const at::Tensor& x, const at::Tensor& attended,
                                          const PixelDitConditioning& c) const {
  return at::addcmul(x, modulation(2, c), to_out_(attended.flatten(-2)));
}

at::Tensor PixelDitBlock::feed_forward(const at::Tensor& x, const PixelDitConditioning& c) const {
  const at::Tensor input = modulated_norm(x, modulation(3, c), modulation(4, c));
  const at::Tensor hidden = at::gelu(ff_in_(input), "tanh");
  return at::addcmul(x, modulation(5, c), ff_out_(hidden));
}

at::Tensor PixelDitBlock::forward(const at::Tensor& x, const PixelDitConditioning& c,
                                  const RopeTable& rope) const {
  const at::Tensor h = attention_input(x, c);
  const double most = at::GradMode::is_enabled() ? kUnknownScore : most_score();
  const at::Tensor attended = attention(query(h, rope), key(h, rope), value(h), most);
  return feed_forward(after_attention(x, attended, c), c);
}

}  // namespace dit
