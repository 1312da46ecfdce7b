#include "process_age.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

namespace dit::tool {

std::optional<double> start_ticks(std::string_view stat) {
  constexpr int fields_behind_name = 20;
  std::size_t at = stat.rfind(')');
  for (int field = 0; field < fields_behind_name; ++field) {
    if (at == std::string_view::npos) return std::nullopt;
    at = stat.find(' ', at + 1);
  }
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view text = stat.substr(at + 1);
  unsigned long long ticks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ticks);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return static_cast<double>(ticks);
}

double process_age() {
  static const double began = [] {
    std::ifstream file("/proc/self/stat");
    std::string text;
    std::getline(file, text, '\0');
    const auto ticks = start_ticks(text);
    const long per_second = sysconf(_SC_CLK_TCK);
    return ticks && per_second > 0 ? *ticks / static_cast<double>(per_second) : -1;
  }();
  timespec now{};
  if (began < 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  return std::max(0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - began);
}

}  // namespace dit::tool
