#include "comm/learnt_place.hpp"

#include <mpi.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "autotune/learnt_key.hpp"
#include "files/environment.hpp"
#include "tapa/tapa.h"
#include "topology/json_reader.hpp"
#include "topology/sysfs.hpp"

namespace tapa {

namespace {

/// Not from /proc/cpuinfo, for which the kernel may measure clocks for milliseconds.
std::string processor() {
#ifdef __x86_64__
  std::array<unsigned, 12> words{};
  for (unsigned i = 0; i < 3; ++i) {
    if (__get_cpuid(0x80000002U + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                    &words[4 * i + 3]) == 0)
      return "x86-64";
  }
  std::array<char, sizeof words + 1> name{};
  std::memcpy(name.data(), words.data(), sizeof words);
  const std::string text = name.data();
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "x86-64" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
#else
  const std::string number = read_line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  utsname system{};
  ::uname(&system);
  return std::string(system.machine) + (number.empty() ? "" : " " + number);
#endif
}

std::string or_unknown(std::string text) {
  return text.empty() ? "unknown" : std::move(text);
}

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  PMPI_Get_library_version(text.data(), &length);
  return or_unknown(plain_text(text.data(), 512));
}

/// Options that change neither plans nor what they take.
bool is_beside(std::string_view name) {
  static constexpr std::array<std::string_view, 10> beside{
      "report", "explain",       "log",      "timeout",  "check",
      "cache",  "agree-timeout", "machines", "fallback", "alloc-mem"};
  return std::ranges::find(beside, name) != beside.end();
}

std::string settings_digest(const Options& options) {
  std::string text;
  for (const OptionInfo& info : option_table()) {
    if (options.origin(info.name) == Origin::standard || is_beside(info.name)) continue;
    text += std::string(info.name) + "=" + options.text(info.name) + "\n";
  }
  for (const std::string& entry : mpi_settings(files::variables())) text += entry + "\n";
  return digest_of(text);
}

}  // namespace

LearntWhere learnt_where(const Options& options) {
  static const auto* const fixed = [] {
    auto* const where = new LearntWhere;
    where->libtapa = std::to_string(TAPA_VERSION_MAJOR) + "." + std::to_string(TAPA_VERSION_MINOR) + "." +
                     std::to_string(TAPA_VERSION_PATCH);
    where->mpi = mpi_version();
    where->cpu =
        or_unknown(plain_text(processor(), 128)) + ", " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN));
    PMPI_Comm_size(MPI_COMM_WORLD, &where->job);
    return where;
  }();
  LearntWhere where = *fixed;
  where.settings = settings_digest(options);
  return where;
}

}  // namespace tapa
