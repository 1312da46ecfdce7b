/// @file
/// The library's log: stderr, prefixed with the rank in MPI_COMM_WORLD, filtered by TAPA_LOG.
#pragma once

#include <cstdint>
#include <string>

namespace tapa {

enum class LogLevel : std::uint8_t { off, error, warn, info, debug };

/// Sets what is written from now on. Process-wide.
void set_log_level(LogLevel level);

void log_error(const std::string& message);
void log_warn(const std::string& message);
void log_info(const std::string& message);

/// "what: why", for which no memory is needed, as there may be none.
void log_error(const char* what, const char* why);
void log_warn(const char* what, const char* why);
void log_info(const char* what, const char* why);

/// Writes a line whatever the level is: explanations and reports that were asked for.
void print_line(const std::string& line);

}  // namespace tapa
