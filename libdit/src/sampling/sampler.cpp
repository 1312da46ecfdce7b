#include "sampling/sampler.hpp"

#include <cmath>
#include <stdexcept>

#include "sampling/steps_in_order.hpp"

namespace dit {
namespace {

constexpr int kMostSteps = 1000;

/// A number as short as it can be said.
std::string number(double value) {
  std::string text(32, '\0');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%g", value)));
  return text;
}

void fail(const char* option, const std::string& value, const std::string& expected) {
  throw std::invalid_argument(std::string(option) + " = " + value + ": expected " + expected);
}

std::string shape_text(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t side : tensor.sizes()) {
    text += (text.empty() ? "" : ", ") + std::to_string(side);
  }
  return "[" + text + "]";
}

void check_dynamic(const SamplerOptions& options) {
  if (options.shift != 1) {
    fail("shift", number(options.shift), "1 with dynamic_shift, which takes its place");
  }
  if (options.image_tokens < 1) {
    fail("image_tokens", std::to_string(options.image_tokens), "at least 1 with dynamic_shift");
  }
  if (options.base_tokens < 1 || options.max_tokens <= options.base_tokens) {
    fail("max_tokens", std::to_string(options.max_tokens),
         "more than base_tokens = " + std::to_string(options.base_tokens) + ", which is at least 1");
  }
  // e^mu must stay a number that 1/sigma - 1 can be added to.
  constexpr double most = 20;
  if (!(std::abs(options.base_shift) <= most) || !(std::abs(options.max_shift) <= most)) {
    fail("base_shift, max_shift", number(options.base_shift) + ", " + number(options.max_shift), "-20 to 20");
  }
}

void check_flow_match(const SamplerOptions& options) {
  if (!(options.shift > 0) || !std::isfinite(options.shift)) {
    fail("shift", number(options.shift), "a number above 0");
  }
  if (options.dynamic_shift) {
    check_dynamic(options);
  }
  if (!(options.shift_terminal >= 0 && options.shift_terminal < 1)) {
    fail("shift_terminal", number(options.shift_terminal), "0 (none) or a number below 1");
  }
  if (options.shift_terminal > 0 && options.steps < 2) {
    fail("steps", std::to_string(options.steps), "at least 2 with shift_terminal: the first sigma is 1");
  }
}

}  // namespace

void check(const SamplerOptions& options) {
  // DPM-Solver++ needs times that differ after rounding to the 1000 of training, noise-free one included.
  const int most = options.kind == SamplerKind::dpm_solver_2m ? kMostSteps - 1 : kMostSteps;
  if (options.steps < 1 || options.steps > most) {
    fail("steps", std::to_string(options.steps), "1 to " + std::to_string(most));
  }
  if (options.kind == SamplerKind::flow_match_euler) {
    check_flow_match(options);
  }
}

SamplerKind parse_sampler(const std::string& name) {
  for (const SamplerKind kind :
       {SamplerKind::flow_match_euler, SamplerKind::ddim, SamplerKind::dpm_solver_2m}) {
    if (name == to_string(kind)) {
      return kind;
    }
  }
  throw std::invalid_argument("sampler = '" + name + "': expected flow-euler, ddim or dpm++2m");
}

const char* to_string(SamplerKind kind) {
  switch (kind) {
    case SamplerKind::flow_match_euler:
      return "flow-euler";
    case SamplerKind::ddim:
      return "ddim";
    case SamplerKind::dpm_solver_2m:
      return "dpm++2m";
  }
  return "?";
}

std::unique_ptr<Sampler> make_sampler(const SamplerOptions& options) {
  check(options);
  switch (options.kind) {
    case SamplerKind::ddim:
      return make_ddim(options.steps);
    case SamplerKind::dpm_solver_2m:
      return make_dpm_solver_2m(options.steps);
    case SamplerKind::flow_match_euler:
      break;
  }
  return make_flow_match_euler(options);
}

std::size_t StepsInOrder::index(int step) const {
  if (step < 0 || step >= steps()) {
    throw std::invalid_argument("step = " + std::to_string(step) + ": expected 0 to " +
                                std::to_string(steps() - 1));
  }
  return static_cast<std::size_t>(step);
}

at::Tensor StepsInOrder::advance(int step, const at::Tensor& sample, const at::Tensor& model_output) {
  static_cast<void>(index(step));
  if (step != 0 && step != expected_) {
    throw std::invalid_argument("step = " + std::to_string(step) + ": expected " + std::to_string(expected_) +
                                ", as steps come in order");
  }
  if (sample.sizes() != model_output.sizes()) {
    fail("model_output", shape_text(model_output), "the sample's shape " + shape_text(sample));
  }
  const at::ScalarType type = sample.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor result = next(step, sample.to(type), model_output.to(type));
  expected_ = step + 1;
  return result.to(sample.scalar_type());
}

}  // namespace dit
