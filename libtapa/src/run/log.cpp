#include "run/log.hpp"

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdio>

#include "run/world.hpp"

namespace tapa {

namespace {

std::atomic<LogLevel> shown{LogLevel::warn};

std::array<char, 24> rank_prefix() {
  std::array<char, 24> text{"tapa"};
  if (!world_runs()) return text;
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::snprintf(text.data(), text.size(), "tapa %d", rank);
  return text;
}

/// Needs no memory: what is logged may be that there is none. In one write, as stderr has no buffer of its
/// own.
void log(LogLevel level, const char* name, const char* what, const char* why = nullptr) {
  if (level > shown.load(std::memory_order_relaxed)) return;
  std::fprintf(stderr, "[%s] %s: %s%s%s\n", rank_prefix().data(), name, what, why != nullptr ? ": " : "",
               why != nullptr ? why : "");
}

}  // namespace

void set_log_level(LogLevel level) {
  shown.store(level, std::memory_order_relaxed);
}

void log_error(const std::string& message) {
  log(LogLevel::error, "error", message.c_str());
}
void log_warn(const std::string& message) {
  log(LogLevel::warn, "warning", message.c_str());
}
void log_info(const std::string& message) {
  log(LogLevel::info, "info", message.c_str());
}

void log_error(const char* what, const char* why) {
  log(LogLevel::error, "error", what, why);
}
void log_warn(const char* what, const char* why) {
  log(LogLevel::warn, "warning", what, why);
}
void log_info(const char* what, const char* why) {
  log(LogLevel::info, "info", what, why);
}

void print_line(const std::string& line) {
  const std::string text = "[" + std::string(rank_prefix().data()) + "] " + line + "\n";
  std::fputs(text.c_str(), stderr);
}

}  // namespace tapa
