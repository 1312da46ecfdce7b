#include <stdexcept>

#include "sampling/cpu_generator.hpp"
#include "sampling/sampler.hpp"

namespace dit {

at::Tensor seeded_noise(std::uint64_t seed, std::int64_t channels, std::int64_t height, std::int64_t width) {
  const auto check = [](const char* name, std::int64_t value) {
    if (value < 1) {
      throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) +
                                  ": expected at least 1");
    }
  };
  check("channels", channels);
  check("height", height);
  check("width", width);
  return at::randn({channels, height, width}, cpu_generator(seed), at::TensorOptions(at::kFloat));
}

}  // namespace dit
