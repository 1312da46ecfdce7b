#include "run/log.hpp"

#include <mpi.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>

#include "run/world.hpp"

namespace tapa {

namespace {

std::string rank_prefix() {
  if (!world_runs()) return "tapa";
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return "tapa " + std::to_string(rank);
}

// The library's only logger; not registered with spdlog, so that a program's own loggers never meet it. Never
// destroyed: calls may come from destructors of globals.
spdlog::logger& logger() {
  static auto* const instance = [] {
    auto* const made = new spdlog::logger("tapa", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("[" + rank_prefix() + "] %l: %v");
    made->set_level(spdlog::level::warn);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::off:
      return logger().set_level(spdlog::level::off);
    case LogLevel::error:
      return logger().set_level(spdlog::level::err);
    case LogLevel::warn:
      return logger().set_level(spdlog::level::warn);
    case LogLevel::info:
      return logger().set_level(spdlog::level::info);
    case LogLevel::debug:
      return logger().set_level(spdlog::level::debug);
  }
}

void log_error(const std::string& message) {
  logger().error(message);
}
void log_warn(const std::string& message) {
  logger().warn(message);
}
void log_info(const std::string& message) {
  logger().info(message);
}

void print_line(const std::string& line) {
  const std::string text = "[" + rank_prefix() + "] " + line + "\n";
  std::fputs(text.c_str(), stderr);
}

}  // namespace tapa
