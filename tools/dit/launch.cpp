#include "launch.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "files/environment.hpp"
#include "process_age.hpp"

namespace dit::tool {

namespace {

std::optional<int> number_of(const char* variable) {
  const char* text = files::variable(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 0 || value > 1'000'000) return std::nullopt;
  return static_cast<int>(value);
}

/// The first variable of a list that has a number.
template <std::size_t N>
std::optional<int> first_of(const std::array<const char*, N>& variables) {
  for (const char* variable : variables) {
    if (const auto value = number_of(variable)) return value;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Launch> launch_from_environment() {
  // Open MPI, then MPICH's Hydra and what speaks PMI, then PMIx alone.
  const auto rank = first_of(std::array{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"});
  if (!rank) return std::nullopt;
  Launch launch;
  launch.rank = *rank;
  launch.size = std::max(first_of(std::array{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}).value_or(1),
                         *rank + 1);
  return launch;
}

std::chrono::duration<double> time_for_rank_0() {
  return std::chrono::duration<double>(2 + 2 * std::clamp(process_age(), 0.0, 30.0));
}

}  // namespace dit::tool
