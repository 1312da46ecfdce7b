#include "models/modules.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/version.h>

#include <cmath>
#include <vector>

namespace dit {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr std::int64_t kRowsPerTask = 128;  // fewest rows of a product that are worth a thread

}  // namespace

Linear::Linear(const TensorMap& weights, const std::string& name)
    : weight(weights.at(name + ".weight")), bias(weights.at(name + ".bias")) {}

at::Tensor Linear::operator()(const at::Tensor& x) const {
  if (!x.is_cpu() || at::GradMode::is_enabled()) {
    return at::linear(x, weight, bias);
  }
  // Rows are dealt out to threads here: libtorch's and BLAS's own threads, in turns, wait for each other
  // spinning.
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  at::Tensor result = at::empty({rows.size(0), weight.size(0)}, x.options());
  at::parallel_for(0, rows.size(0), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    const at::NoGradGuard no_grad;
    at::Tensor part = result.narrow(0, begin, end - begin);
    at::addmm_out(part, bias, rows.narrow(0, begin, end - begin), weight.t());
  });
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return result.reshape(shape);
}

void add_linear(TensorShapes& shapes, const std::string& name, std::int64_t out, std::int64_t in) {
  shapes[name + ".weight"] = {out, in};
  shapes[name + ".bias"] = {out};
}

at::Tensor layer_norm(const at::Tensor& x) {
  return at::layer_norm(x, {x.size(-1)}, {}, {}, kEpsilon);
}

at::Tensor modulated_norm(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale) {
  return at::addcmul(shift, layer_norm(x), 1.0 + scale);
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
  if (!x.is_cpu()) {  // one kernel
    return at::rms_norm(x, {x.size(-1)}, weight, kEpsilon);
  }
#endif
  const at::Tensor wide = x.to(at::kFloat);
  return (wide * at::rsqrt(wide.square().mean(-1, true) + kEpsilon)).to(x.scalar_type()) * weight;
}

at::Tensor rotate(const at::Tensor& x, const RopeTable& rope) {
  const at::Tensor pairs = at::view_as_complex(x.to(at::kFloat).unflatten(-1, {-1, 2}));
  return at::view_as_real(pairs * rope.turns.unsqueeze(1)).flatten(-2).to(x.scalar_type());
}

at::Tensor time_features(const at::Tensor& t) {
  const std::int64_t half = kTimeFeatures / 2;
  const at::Tensor thousandths = t * 1000.0;
  const at::Tensor frequency = at::exp(at::arange(half, thousandths.options().dtype(at::kFloat)) *
                                       (-std::log(10000.0) / static_cast<double>(half)));
  const at::Tensor angle = thousandths.to(at::kFloat).unsqueeze(1) * frequency.unsqueeze(0);
  return at::cat({at::cos(angle), at::sin(angle)}, 1);
}

}  // namespace dit
