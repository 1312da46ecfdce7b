#include "options.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tapa::preload {

namespace {

constexpr double kAgreeTimeout = 30;

std::string_view variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// What TAPA_ENABLE says, by the words of libtapa's own table.
enum class Enabled { unread, no, yes, with_memory };

/// Read once: programs may change it.
Enabled enable() {
  static constinit std::atomic<Enabled> known{Enabled::unread};
  if (known.load(std::memory_order_relaxed) == Enabled::unread) {
    const auto text = variable("TAPA_ENABLE");
    const bool no = text == "0" || text == "off" || text == "no" || text == "false";
    known.store(no                    ? Enabled::no
                : text == "alloc-mem" ? Enabled::with_memory
                                      : Enabled::yes,
                std::memory_order_relaxed);
  }
  return known.load(std::memory_order_relaxed);
}

/// One write, so that lines of several ranks do not mix.
void write_line(const char* format, va_list arguments) {
  std::array<char, 1024> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::fprintf(stderr, "tapa: %s\n", text.data());
}

}  // namespace

bool enabled() {
  return enable() != Enabled::no;
}

bool shares_alloc_mem() {
  return enable() == Enabled::with_memory;
}

double agree_timeout() {
  const char* const text = secure_getenv("TAPA_TIMEOUT");
  const char* const comma = text == nullptr ? nullptr : std::strchr(text, ',');
  if (comma == nullptr || comma[1] == '\0') return kAgreeTimeout;
  char* end = nullptr;
  const double value = std::strtod(comma + 1, &end);
  return *end == '\0' && std::isfinite(value) && value >= 0 ? value : kAgreeTimeout;
}

void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

void log_info(const char* format, ...) {
  const auto level = variable("TAPA_LOG");
  if (level != "info" && level != "debug") return;
  va_list arguments;
  va_start(arguments, format);
  write_line(format, arguments);
  va_end(arguments);
}

}  // namespace tapa::preload
