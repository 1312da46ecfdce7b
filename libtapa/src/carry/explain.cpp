#include "carry/explain.hpp"

#include <cstdio>

#include "comm/names.hpp"

namespace tapa {

namespace {

std::string microseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
  return text;
}

}  // namespace

std::string explanation(const PlanEntry& entry, const char* function, int ranks, double seconds) {
  std::string line = name_here(function) + ", " + std::to_string(ranks) + " ranks, " +
                     std::to_string(entry.bytes) + " B per pair: " + entry.text + " (" + entry.why + ")";
  if (entry.predicted > 0) line += ", predicted " + microseconds(entry.predicted);
  return line + ", first run " + microseconds(seconds);
}

}  // namespace tapa
