#include "gray_scott.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

namespace dit::gray_scott {
namespace {

/// Bits of a start: a field is the same in whatever batch, on whatever device it is simulated.
std::uint64_t start_seed(const GrayScottRegime& regime, std::uint64_t seed, std::int64_t index) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  const auto add = [&hash](std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) {
      hash = (hash ^ ((value >> (8 * byte)) & 0xFFU)) * 1099511628211ULL;
    }
  };
  for (const char letter : regime.name) {
    add(static_cast<unsigned char>(letter));
  }
  add(seed);
  add(static_cast<std::uint64_t>(index));
  return hash;
}

/// The standard's distributions differ from library to library; these do not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  float uniform() { return static_cast<float>(engine_() >> 40U) * 0x1p-24F; }
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(count));
  }

 private:
  std::mt19937_64 engine_;
};

/// u = 1, v = 0, with squares of (1/2, 1/4) strewn over about a sixth of the area, all a little noisy.
at::Tensor start_field(const GrayScottRegime& regime, const GrayScottOptions& options, std::int64_t index) {
  const std::int64_t size = options.size;
  Random random(start_seed(regime, options.seed, index));
  at::Tensor field = at::empty({2, size, size}, at::kFloat);
  float* u = field.data_ptr<float>();
  float* v = u + size * size;
  std::fill(u, v, 1.0F);
  std::fill(v, v + size * size, 0.0F);
  const std::int64_t squares = std::max<std::int64_t>(1, size * size / 400);
  for (std::int64_t s = 0; s < squares; ++s) {
    const std::int64_t side = 4 + random.below(9);
    const std::int64_t top = random.below(size);
    const std::int64_t left = random.below(size);
    for (std::int64_t i = 0; i < side * side; ++i) {
      const std::int64_t at = (top + i / side) % size * size + (left + i % side) % size;
      u[at] = 0.5F;
      v[at] = 0.25F;
    }
  }
  for (std::int64_t i = 0; i < size * size; ++i) {
    u[i] -= 0.02F * random.uniform();
    v[i] += 0.02F * random.uniform();
  }
  return field;
}

/// The state with a border of one pixel, which repeats the opposite side before each step.
class Simulation {
 public:
  Simulation(const GrayScottRegime& regime, const GrayScottOptions& options, const at::Tensor& start)
      : feed_step_(options.dt * regime.feed), dt_(options.dt) {
    const std::int64_t n = options.size;
    const at::TensorOptions place = start.options();
    padded_ = at::empty({start.size(0), 2, n + 2, n + 2}, place);
    inner_ = padded_.narrow(2, 1, n).narrow(3, 1, n);
    inner_.copy_(start);
    u_ = inner_.select(1, 0);
    v_ = inner_.select(1, 1);
    rows_ = at::empty({start.size(0), 2, n + 2, n}, place);
    spread_ = at::empty_like(start);
    reaction_ = at::empty({start.size(0), n, n}, place);
    const auto pair = [&](double of_u, double of_v) {
      return at::tensor({of_u, of_v}, at::kDouble).to(place).reshape({2, 1, 1});
    };
    const double du = options.dt * options.diffusion_u;
    const double dv = options.dt * options.diffusion_v;
    gain_ = pair(0.05 * du, 0.05 * dv);
    stay_ = pair(1.0 - 1.8 * du - feed_step_, 1.0 - 1.8 * dv - options.dt * (regime.feed + regime.kill));
  }

  void step() {
    wrap();
    const std::int64_t n = inner_.size(3);
    // (0.05 0.2 0.05; 0.2 -1 0.2; 0.05 0.2 0.05) = 0.05 (1 4 1)'(1 4 1) - 1.8 at the centre: two passes of
    // three taps.
    at::add_out(rows_, padded_.narrow(3, 0, n), padded_.narrow(3, 2, n));
    rows_.add_(padded_.narrow(3, 1, n), 4.0);
    at::add_out(spread_, rows_.narrow(2, 0, n), rows_.narrow(2, 2, n));
    spread_.add_(rows_.narrow(2, 1, n), 4.0);
    at::mul_out(reaction_, v_, v_);
    reaction_.mul_(u_);
    inner_.mul_(stay_);
    inner_.addcmul_(spread_, gain_);
    u_.sub_(reaction_, dt_).add_(feed_step_);
    v_.add_(reaction_, dt_);
  }

  [[nodiscard]] at::Tensor state() const { return inner_.contiguous(); }

 private:
  void wrap() {
    const std::int64_t n = inner_.size(3);
    padded_.narrow(2, 0, 1).copy_(padded_.narrow(2, n, 1));
    padded_.narrow(2, n + 1, 1).copy_(padded_.narrow(2, 1, 1));
    padded_.narrow(3, 0, 1).copy_(padded_.narrow(3, n, 1));
    padded_.narrow(3, n + 1, 1).copy_(padded_.narrow(3, 1, 1));
  }

  double feed_step_;
  double dt_;
  at::Tensor padded_;  ///< [count, 2, size + 2, size + 2]
  at::Tensor inner_;   ///< without the border; a view, as u_ and v_
  at::Tensor u_;
  at::Tensor v_;
  at::Tensor rows_;      ///< summed along rows
  at::Tensor spread_;    ///< summed along both
  at::Tensor reaction_;  ///< u v^2
  at::Tensor gain_;      ///< of spread_, for u and v
  at::Tensor stay_;      ///< of the old value
};

at::Tensor simulate(const GrayScottRegime& regime, const GrayScottOptions& options, const at::Tensor& start) {
  Simulation simulation(regime, options, start);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    simulation.step();
  }
  return simulation.state();
}

void check(std::int64_t count, const GrayScottOptions& options) {
  const auto refuse = [](const std::string& name, const std::string& value, const char* expected) {
    throw std::invalid_argument("Gray-Scott " + name + " = " + value + ": expected " + expected);
  };
  if (count < 1) {
    refuse("count", std::to_string(count), "at least 1 field");
  }
  if (options.size < 8 || options.size > 4096) {
    refuse("size", std::to_string(options.size), "8 to 4096 pixels");
  }
  if (options.steps < 0) {
    refuse("steps", std::to_string(options.steps), "0 or more");
  }
  const auto in = [](double value, double low, double high) { return value > low && value <= high; };
  if (!in(options.dt, 0.0, 1.0)) {
    refuse("dt", std::to_string(options.dt), "more than 0, at most 1");
  }
  // Explicit Euler: the checkerboard is damped by 1 - 1.6 D dt.
  if (!in(options.diffusion_u, 0.0, 1.0) || !in(options.diffusion_v, 0.0, 1.0)) {
    refuse("diffusion", std::to_string(options.diffusion_u) + ", " + std::to_string(options.diffusion_v),
           "more than 0, at most 1 (explicit Euler)");
  }
}

}  // namespace

at::Tensor simulate_gray_scott(const GrayScottRegime& regime, std::int64_t count,
                               const GrayScottOptions& options, at::Device device) {
  check(count, options);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> fields;
  for (std::int64_t i = 0; i < count; ++i) {
    const at::Tensor start = start_field(regime, options, i).unsqueeze(0);
    // On a CPU each field alone, so that it stays in a core's cache; elsewhere all at once.
    fields.push_back(device.is_cpu() ? simulate(regime, options, start) : start);
  }
  const at::Tensor all = at::cat(fields, 0);
  return device.is_cpu() ? all : simulate(regime, options, all.to(device));
}

}  // namespace dit::gray_scott
