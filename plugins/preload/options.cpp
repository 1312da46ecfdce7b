#include "options.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "autotune/learnt_path.hpp"

namespace tapa::preload {

namespace {

constexpr double kAgreeTimeout = 30;

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// The words of libtapa's own table.
bool yes_or_no(std::string_view text, bool standard) {
  if (text == "1" || text == "on" || text == "yes" || text == "true") return true;
  if (text == "0" || text == "off" || text == "no" || text == "false") return false;
  return standard;
}

double seconds(const char* name, double standard, double where_wrong) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return standard;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  return *end == '\0' && std::isfinite(value) && value >= 0 ? value : where_wrong;
}

// Options that ask for libtapa, and their values that do not. Values that libtapa refuses do: it is to be
// there to say so.
struct Asking {
  const char* name;
  std::array<std::string_view, 5> quiet;
};
constexpr std::array kAsking{Asking{"TAPA_PLAN", {"auto"}}, Asking{"TAPA_TUNING", {}},
                             Asking{"TAPA_CHECK", {"off", "0", "mpi", "args"}},
                             Asking{"TAPA_EXPLAIN", {"0", "off", "no", "false"}},
                             Asking{"TAPA_REPORT", {"0", "off", "no", "false", "passive"}}};

/// One write, so that lines of several ranks do not mix.
void write_line(const char* format, va_list arguments) {
  std::array<char, 1024> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  std::fprintf(stderr, "tapa: %s\n", text.data());
}

}  // namespace

bool enabled() {
  static const bool value = yes_or_no(variable("TAPA_ENABLE"), true);
  return value;
}

bool shares_alloc_mem() {
  static const bool value = yes_or_no(variable("TAPA_ALLOC_MEM"), false);
  return value;
}

double agree_timeout() {
  return seconds("TAPA_AGREE_TIMEOUT", kAgreeTimeout, kAgreeTimeout);
}

bool wants_libtapa_at_once() {
  for (const auto& [name, quiet] : kAsking) {
    const std::string_view value = variable(name);
    if (!value.empty() && std::find(quiet.begin(), quiet.end(), value) == quiet.end()) return true;
  }
  return seconds("TAPA_TIMEOUT", 0, 1) != 0;
}

bool has_learnt() {
  if (getauxval(AT_SECURE) != 0) return false;
  const std::string file = learnt_path(variable("TAPA_CACHE"), variable("XDG_CACHE_HOME"), variable("HOME"));
  return !file.empty() && access(file.c_str(), R_OK) == 0;
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
