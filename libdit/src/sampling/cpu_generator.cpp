#include "sampling/cpu_generator.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <random>

namespace dit {

at::Generator cpu_generator(std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto upper = static_cast<std::uint32_t>(seed >> 32);
  if (upper == 0) return generator;
  std::seed_seq words{static_cast<std::uint32_t>(seed), upper};
  at::mt19937 engine;
  at::mt19937_data_pod data = engine.data();
  words.generate(data.state_.begin(), data.state_.end());
  data.seed_ = seed;
  engine.set_data(data);
  at::check_generator<at::CPUGeneratorImpl>(generator)->set_engine(engine);
  return generator;
}

}  // namespace dit
