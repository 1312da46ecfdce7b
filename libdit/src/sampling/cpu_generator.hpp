/// Random numbers from a seed of 64 bits.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

namespace dit {

/// A generator of its own: the process's default one belongs to others. Seeds below 2^32 start it as
/// torch.manual_seed does. Of larger ones libtorch's mt19937 takes the lower 32 bits only; here they start it
/// as std::seed_seq{lower, upper} starts std::mt19937.
[[nodiscard]] at::Generator cpu_generator(std::uint64_t seed);

}  // namespace dit
