/// The Gray-Scott reaction-diffusion system, source of training data. u' = Du lap(u) - u v^2 + F (1 - u);
/// v' = Dv lap(v) + u v^2 - (F + k) v; periodic square, nine-point Laplacian, explicit Euler (Pearson 1993).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dit::gray_scott {

/// A point in the (F, k) plane with the pattern that it makes.
struct GrayScottRegime {
  std::string name;  ///< short, of pattern: "spots", "stripes", "mitosis", ...
  double feed = 0;   ///< F
  double kill = 0;   ///< k
};
/// The twelve regimes that are the classes of the embedded model.
[[nodiscard]] const std::vector<GrayScottRegime>& gray_scott_regimes();

struct GrayScottOptions {
  std::int64_t size = 128;  ///< pixels a side
  std::int64_t steps = 8000;
  std::uint64_t seed = 0;
  double diffusion_u = 0.5;  ///< a pattern repeats after a dozen pixels
  double diffusion_v = 0.25;
  double dt = 1.0;
};
/// Fields [count, 2, size, size] (u, v) of one regime, from `count` seeded starts. Runs on the device of
/// `options`.
[[nodiscard]] at::Tensor simulate_gray_scott(const GrayScottRegime& regime, std::int64_t count,
                                             const GrayScottOptions& options, at::Device device);

}  // namespace dit::gray_scott
