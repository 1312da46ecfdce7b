#include "sample_fields.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "field_set.hpp"
#include "sampling/sampler.hpp"

namespace dit::gray_scott {
namespace {

at::Tensor direction(const PixelDit& model, const at::Tensor& x, double t, const at::Tensor& labels,
                     double guidance) {
  const at::ScalarType dtype = model.weights().begin()->second.scalar_type();
  const auto ask = [&](const at::Tensor& fields, const at::Tensor& of_labels) {
    const at::Tensor times = at::full({fields.size(0)}, t, x.options());
    return model.forward(fields.to(dtype), times, of_labels).to(at::kFloat);
  };
  if (guidance == 1.0) {
    return ask(x, labels);
  }
  const at::Tensor none = at::full_like(labels, model.config().classes);
  const std::vector<at::Tensor> branches = ask(at::cat({x, x}, 0), at::cat({labels, none}, 0)).chunk(2, 0);
  return guided(branches[0], branches[1], guidance);
}

}  // namespace

at::Tensor sample_fields(const PixelDit& model, const at::Tensor& labels, const SampleOptions& options) {
  const at::NoGradGuard no_grad;
  const at::Device device = model.weights().begin()->second.device();
  at::Generator generator = seeded_generator(device, options.seed);
  const at::Tensor wanted = labels.to(device);
  const std::int64_t batch =
      std::max<std::int64_t>(1, options.batch * 128 * 128 / (options.size * options.size));
  std::vector<at::Tensor> done;
  for (std::int64_t begin = 0; begin < wanted.size(0); begin += batch) {
    const at::Tensor part = wanted.slice(0, begin, begin + batch);
    const auto place = at::TensorOptions(at::kFloat).device(device);
    at::Tensor x =
        at::randn({part.size(0), model.config().channels, options.size, options.size}, generator, place);
    const std::unique_ptr<Sampler> sampler = make_sampler({.steps = options.steps});
    for (int step = 0; step < sampler->steps(); ++step) {
      x = sampler->advance(step, x, direction(model, x, sampler->time(step), part, options.guidance));
    }
    done.push_back(x);
  }
  return at::cat(done, 0);
}

}  // namespace dit::gray_scott
