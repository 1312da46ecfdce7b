#include "launch.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace dit::tool {

namespace {

std::optional<int> number_of(const char* variable) {
  const char* text = std::getenv(variable);
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

/// Seconds since this process began; 0 where the kernel does not tell.
double age_of_process() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));  // names have blanks
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return 0;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) - ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
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
  return std::chrono::duration<double>(2 + 2 * std::clamp(age_of_process(), 0.0, 30.0));
}

}  // namespace dit::tool
