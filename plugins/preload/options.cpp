#include "options.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tapa::preload {

namespace {

constexpr double kAgreeTimeout = 30;

std::string_view variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// The words of libtapa's own table.
bool yes_or_no(const char* name, bool standard) {
  const auto text = variable(name);
  if (text == "1" || text == "on" || text == "yes" || text == "true") return true;
  if (text == "0" || text == "off" || text == "no" || text == "false") return false;
  return standard;
}

/// A variable that is read once: programs may change it. -1: not yet.
class Switch {
 public:
  constexpr Switch(const char* name, bool standard) : name_(name), standard_(standard) {}
  bool on() {
    if (on_.load(std::memory_order_relaxed) < 0)
      on_.store(yes_or_no(name_, standard_) ? 1 : 0, std::memory_order_relaxed);
    return on_.load(std::memory_order_relaxed) != 0;
  }

 private:
  const char* name_;
  bool standard_;
  std::atomic<int> on_{-1};
};

constinit Switch enable{"TAPA_ENABLE", true};
constinit Switch alloc_mem{"TAPA_ALLOC_MEM", false};

double seconds(const char* name, double standard, double where_wrong) {
  const char* const text = secure_getenv(name);
  if (text == nullptr || *text == '\0') return standard;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  return *end == '\0' && std::isfinite(value) && value >= 0 ? value : where_wrong;
}

/// One write, so that lines of several ranks do not mix.
void write_line(const char* format, va_list arguments) {
  std::array<char, 1024> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::fprintf(stderr, "tapa: %s\n", text.data());
}

}  // namespace

bool enabled() {
  return enable.on();
}

bool shares_alloc_mem() {
  return alloc_mem.on();
}

double agree_timeout() {
  return seconds("TAPA_AGREE_TIMEOUT", kAgreeTimeout, kAgreeTimeout);
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
