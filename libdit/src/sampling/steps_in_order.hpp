/// What all samplers share.
#pragma once

#include <vector>

#include "sampling/sampler.hpp"

namespace dit {

/// Checks the order of steps, and computes in a type that does not lose the small changes of many steps.
class StepsInOrder : public Sampler {
 public:
  [[nodiscard]] at::Tensor advance(int step, const at::Tensor& sample, const at::Tensor& model_output) final;

 protected:
  /// Both in one type, fp32 or fp64.
  [[nodiscard]] virtual at::Tensor next(int step, const at::Tensor& sample,
                                        const at::Tensor& model_output) = 0;
  /// `step` as an index; throws unless it is one of this sampler's.
  [[nodiscard]] std::size_t index(int step) const;

 private:
  int expected_ = 0;
};

/// alpha_bar of the 1000 times of training (the square of what is left of the image): betas linear from 1e-4
/// to 0.02.
[[nodiscard]] const std::vector<double>& alpha_bars();

[[nodiscard]] std::unique_ptr<Sampler> make_flow_match_euler(const SamplerOptions& options);
[[nodiscard]] std::unique_ptr<Sampler> make_ddim(int steps);
[[nodiscard]] std::unique_ptr<Sampler> make_dpm_solver_2m(int steps);

}  // namespace dit
