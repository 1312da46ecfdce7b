#include "evaluate.hpp"

#include <chrono>
#include <cmath>
#include <stdexcept>

#include "sample_fields.hpp"
#include "trainer.hpp"

namespace dit::gray_scott {
namespace {

FieldSet simulated(const EvaluateOptions& options, std::int64_t per_class, std::uint64_t seed) {
  GrayScottOptions gray_scott;
  gray_scott.size = options.size;
  gray_scott.steps = options.simulation_steps;
  gray_scott.seed = seed;
  FieldSet set = simulate_fields(options.regimes, per_class, gray_scott, parse_device(options.device));
  return {set.fields.to(at::kCPU), set.labels.to(at::kCPU)};
}

PixelDit placed(const LoadedModel& model, const EvaluateOptions& options) {
  const at::Device device = parse_device(options.device);
  return {pixel_dit_config(*model.config.network),
          dit::placed(model.weights,
                      at::TensorOptions(options.bf16 ? at::kBFloat16 : at::kFloat).device(device))};
}

Estimate estimate(const at::Tensor& values) {
  const auto count = static_cast<double>(values.size(0));
  return {values.mean().item<double>(), count > 1 ? values.std().item<double>() / std::sqrt(count) : 0.0};
}

double share(const at::Tensor& hits) {
  return hits.to(at::kDouble).mean().item<double>();
}

}  // namespace

void check(const EvaluateOptions& options, const ModelConfig& model) {
  const auto refuse = [](const std::string& name, const std::string& value, const std::string& expected) {
    throw std::invalid_argument(name + " = " + value + ": expected " + expected);
  };
  if (model.channels.size() != 2) {
    refuse("channels", std::to_string(model.channels.size()), "2: u and v of Gray-Scott fields");
  }
  if (options.regimes.size() != model.class_names.size()) {
    refuse("classes", std::to_string(model.class_names.size()),
           "one per regime, " + std::to_string(options.regimes.size()));
  }
  for (std::size_t i = 0; i < options.regimes.size(); ++i) {
    if (options.regimes[i].name != model.class_names[i]) {
      refuse("class " + std::to_string(i), model.class_names[i], "the regime " + options.regimes[i].name);
    }
  }
  if (options.size < 8 || options.size % model.network->shape().patch != 0) {
    refuse("size", std::to_string(options.size),
           "at least 8 pixels, a multiple of the patch, " + std::to_string(model.network->shape().patch));
  }
  if (options.per_class < 2) {
    refuse("fields per class", std::to_string(options.per_class), "at least 2");
  }
  if (options.steps < 1) {
    refuse("steps", std::to_string(options.steps), "at least 1");
  }
  if (options.simulation_steps < 1) {
    refuse("simulation steps", std::to_string(options.simulation_steps), "at least 1");
  }
}

Evaluation::Evaluation(const LoadedModel& model, const EvaluateOptions& options)
    : options_((check(options, model.config), options)),
      config_(model.config),
      model_(placed(model, options)),
      taught_(simulated(options, 2 * options.per_class, options.seed + 1)),
      held_out_(simulated(options, options.per_class, options.seed)),
      taught_statistics_(field_statistics(taught_.fields)),
      real_(field_statistics(held_out_.fields)),
      classifier_(taught_statistics_, taught_.labels, static_cast<std::int64_t>(options.regimes.size())) {}

EvaluationReport Evaluation::compare(double guidance) const {
  if (!std::isfinite(guidance) || guidance < 0) {
    throw std::invalid_argument("guidance = " + std::to_string(guidance) + ": expected 0 or more");
  }
  SampleOptions sample;
  sample.size = options_.size;
  sample.steps = options_.steps;
  sample.guidance = guidance;
  sample.seed = options_.seed;
  const auto start = std::chrono::steady_clock::now();
  const at::Tensor fields = sample_fields(model_, held_out_.labels, sample).to(at::kCPU);
  EvaluationReport report;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.size = options_.size;
  report.per_class = options_.per_class;
  report.guidance = guidance;
  report.steps = options_.steps;
  report.generated = to_physical_units(fields, config_.channels);
  const PerFieldStatistics generated = field_statistics(report.generated);
  const at::Tensor named_real = classifier_.classify(real_) == held_out_.labels;
  const at::Tensor named_generated = classifier_.classify(generated) == held_out_.labels;
  report.accuracy_real = share(named_real);
  report.accuracy_generated = share(named_generated);
  for (std::int64_t label = 0; label < config_.network->shape().classes; ++label) {
    report.classes.push_back(compare_class(label, generated, named_real, named_generated));
  }
  return report;
}

ClassComparison Evaluation::compare_class(std::int64_t label, const PerFieldStatistics& generated,
                                          const at::Tensor& named_real,
                                          const at::Tensor& named_generated) const {
  const std::int64_t count = options_.per_class;
  const auto own = [&](const at::Tensor& all) { return all.narrow(0, label * count, count); };
  ClassComparison result;
  result.name = config_.class_names[static_cast<std::size_t>(label)];
  for (std::size_t i = 0; i < config_.channels.size(); ++i) {
    const auto c = static_cast<std::int64_t>(i);
    result.channels.push_back({config_.channels[i].name, estimate(own(real_.mean).select(1, c)),
                               estimate(own(generated.mean).select(1, c)),
                               estimate(own(real_.deviation).select(1, c)),
                               estimate(own(generated.deviation).select(1, c))});
  }
  result.spectrum_error = spectrum_error(own(generated.spectrum), own(real_.spectrum));
  result.spectrum_error_floor =
      spectrum_error(taught_statistics_.spectrum.narrow(0, 2 * label * count, count), own(real_.spectrum));
  result.accuracy_real = share(own(named_real));
  result.accuracy_generated = share(own(named_generated));
  return result;
}

}  // namespace dit::gray_scott
