/// Sampling loops: which times a model is asked at, and how its answers move the sample. Elementwise, so that
/// each rank steps its own tokens alone. Formulas: diffusers' scheduling_flow_match_euler_discrete,
/// scheduling_ddim, scheduling_dpmsolver_multistep.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dit {

enum class SamplerKind { flow_match_euler, ddim, dpm_solver_2m };
[[nodiscard]] SamplerKind parse_sampler(const std::string& name);  ///< "flow-euler", "ddim", "dpm++2m"
[[nodiscard]] const char* to_string(SamplerKind kind);

struct SamplerOptions {
  SamplerKind kind = SamplerKind::flow_match_euler;
  int steps = 50;
  double shift = 1.0;          ///< flow match: static shift
  bool dynamic_shift = false;  ///< flow match: exponential shift by `image_tokens`
  double base_shift = 0.5;     ///< dynamic: mu at base_tokens
  double max_shift = 1.15;     ///< dynamic: mu at max_tokens
  std::int64_t base_tokens = 256;
  std::int64_t max_tokens = 4096;
  std::int64_t image_tokens = 0;
  double shift_terminal = 0;  ///< > 0: stretch so that the last non-zero sigma is this (Qwen-Image: 0.02)
  bool diffusers_sigma_min =
      false;  ///< shift twice at the end as diffusers does with a static shift (SD3's 0.008929)
};

/// Throws std::invalid_argument that names the option, its value and what was expected.
void check(const SamplerOptions& options);

/// Sigmas of a flow-match run: steps + 1 values, the last is 0.
[[nodiscard]] std::vector<double> flow_match_sigmas(const SamplerOptions& options);

/// What the model's answer means.
enum class ModelOutput { velocity, epsilon };

/// What a velocity model is asked for a sampler's sample: its time, and the factor that makes the sample one
/// of flow.
struct FlowTime {
  double t = 0;
  double input_scale = 1;
};

class Sampler {
 public:
  Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  virtual ~Sampler() = default;
  [[nodiscard]] virtual int steps() const = 0;
  /// What the model gets as time at a step: sigma in [0, 1] for flow match, t / 1000 of a 1000-step diffusion
  /// else.
  [[nodiscard]] virtual double time(int step) const = 0;
  /// The same for a velocity model: {sigma, 1} for flow match.
  [[nodiscard]] virtual FlowTime flow_time(int step) const = 0;
  [[nodiscard]] virtual ModelOutput output() const = 0;
  /// The sample after a step, in its own type; computed in fp32 (fp64 if it is that). Steps must come in
  /// order, from 0 (multistep samplers remember); step 0 begins anew.
  [[nodiscard]] virtual at::Tensor advance(int step, const at::Tensor& sample,
                                           const at::Tensor& model_output) = 0;
};
/// After check().
[[nodiscard]] std::unique_ptr<Sampler> make_sampler(const SamplerOptions& options);

/// A velocity model (rectified flow: v = noise - image) asked by a diffusion sampler: its epsilon at x. At
/// diffusion time with alpha, s the flow time is s / (alpha + s) and the flow's sample is x / (alpha + s).
[[nodiscard]] FlowTime flow_time_of(double alpha_bar);
[[nodiscard]] at::Tensor epsilon_from_velocity(const at::Tensor& flow_sample, const at::Tensor& velocity,
                                               double t);
/// The way back: a diffusion model's epsilon as velocity. t < 1.
[[nodiscard]] at::Tensor velocity_from_epsilon(const at::Tensor& flow_sample, const at::Tensor& epsilon,
                                               double t);
/// What `sampler` wants at a step, from what a velocity model answered to flow_time(step).
[[nodiscard]] at::Tensor answer_from_velocity(const Sampler& sampler, int step, const at::Tensor& flow_sample,
                                              const at::Tensor& velocity);

/// Guidance: uncond + scale (cond - uncond).
[[nodiscard]] at::Tensor guided(const at::Tensor& conditional, const at::Tensor& unconditional, double scale);

/// Standard normal noise of a whole image [channels, height, width] from a seed: the same on every rank,
/// whatever their number; the caller slices.
[[nodiscard]] at::Tensor seeded_noise(std::uint64_t seed, std::int64_t channels, std::int64_t height,
                                      std::int64_t width);

}  // namespace dit
