#include "comm/results_store.hpp"

#include <mpi.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "autotune/results_file.hpp"
#include "comm/comm_state.hpp"
#include "files/environment.hpp"
#include "files/input_file.hpp"
#include "files/paths.hpp"
#include "run/locked.hpp"
#include "run/log.hpp"
#include "run/world.hpp"
#include "tapa/tapa.h"
#include "topology/json_reader.hpp"
#include "topology/sysfs.hpp"
#include "world/process_options.hpp"
#include "world/world.hpp"

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

std::string settings_digest(const Options& options) {
  // These change neither plans nor what they take.
  constexpr std::array<std::string_view, 7> beside{"report", "explain", "log",   "timeout",
                                                   "check",  "cache",   "enable"};
  std::string text;
  for (const OptionInfo& info : option_table()) {
    if (options.origin(info.name) == Origin::standard || std::ranges::find(beside, info.name) != beside.end())
      continue;
    text += std::string(info.name) + "=" + options.text(info.name) + "\n";
  }
  for (const std::string& entry : mpi_settings(files::variables())) text += entry + "\n";
  return digest_of(text);
}

/// What this process knows.
struct Notes {
  Results run;
  Terms::Used used;
};

/// As the file was when it was first asked for.
const Results& results_before(const std::string& file) {
  static const auto* const results = new Results(read_results(file));
  return *results;
}

/// Whether this process writes the file: rank 0 of the job, where there is one.
bool keeps_file() {
  static const bool keeps = rank_in(MPI_COMM_WORLD) == 0 && !results_file(own_options()).empty();
  return keeps;
}

/// Whether the program has set an option of a communicator: then its times are no other's.
bool altered(const Options& options) {
  return std::ranges::any_of(
      option_table(), [&](const OptionInfo& info) { return options.origin(info.name) == Origin::call; });
}

std::string digest(const MachineView& machine) {
  return topology_digest(*machine.topology, machine.shares_buffers);
}

void note(CommState& state) {
  if (!state.ready() || state.membership.world != World::of_process()) return;
  const auto parts = state.parts();
  const Options& options = *parts->chooser.options();
  std::vector<SizeResult> sizes = parts->tuner.results();
  if (sizes.empty() || altered(options)) return;
  const auto known = locked<Notes>();
  known->used.sizes += parts->tuner.used().sizes;
  known->used.refuted += parts->tuner.used().refuted;
  add_to_run(known->run,
             {results_where(options), state.size, digest(parts->chooser.machine()), std::move(sizes)});
}

void save() {
  const std::string file = results_file(own_options());
  const auto known = locked<Notes>();
  if (known->run.shapes.empty()) return;
  const Results before = read_results(file);
  Results after = merged(before, known->run, today());
  static_cast<void>(shortened_json(after));
  if (after == before || after.shapes.empty()) return;
  const std::string problem = write_results(file, after);
  log_info("cache " + file + (problem.empty() ? ": written" : ": cannot be written: " + problem));
}

}  // namespace

ResultsWhere results_where(const Options& options) {
  static const auto* const fixed = [] {
    auto* const where = new ResultsWhere;
    where->libtapa = words(TAPA_VERSION_MAJOR, ".", TAPA_VERSION_MINOR, ".", TAPA_VERSION_PATCH);
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
    int length = 0;
    PMPI_Get_library_version(version.data(), &length);
    where->mpi = or_unknown(plain_text(version.data(), 512));
    where->cpu =
        or_unknown(plain_text(processor(), 128)) + ", " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN));
    where->job = size_of(MPI_COMM_WORLD);
    return where;
  }();
  ResultsWhere where = *fixed;
  where.settings = settings_digest(options);
  return where;
}

std::string results_file(const Options& options) {
  const std::string& file = options.text("cache");
  if (file.find('/') == std::string::npos) return {};  // 0
  return files::from_first_folder(file).string();
}

int today() {
  return std::max(1, static_cast<int>(std::time(nullptr) / 86400));  // of a clock that was never set
}

Results read_results(const std::string& path) {
  try {
    return parse_results(files::read_text(path, kMostResultsBytes), path);
  } catch (const files::FileError& error) {
    if (!error.is_missing()) log_info("cache " + path + ": " + error.what() + "; it is not used");
  } catch (const std::invalid_argument& error) {
    log_info(words(error.what(), "; it is not used"));
  }
  return {};
}

std::string results_for(const Options& options, int ranks) {
  Results found = locked<Notes>()->run;
  std::erase_if(found.shapes, [&](const ShapeResults& shape) { return shape.ranks != ranks; });
  Results fits;
  const std::string file = results_file(options);
  if (!file.empty() && !results_before(file).shapes.empty())
    fits.shapes = fitting(results_before(file), results_where(options), ranks, today());
  if (!found.shapes.empty()) fits = merged(std::move(fits), found, today());
  return fits.shapes.empty() ? std::string() : shortened_json(fits);
}

void recall_results(const std::string& text, CommParts& parts) {
  if (text.empty()) return;
  const Results results = parse_results(text, "of rank 0");
  const std::string here = digest(parts.chooser.machine());
  for (const ShapeResults& shape : results.shapes) {
    if (shape.topology != here) continue;
    log_info(words("a communicator begins with what is known of ", shape.sizes.size(), " sizes"));
    parts.tuner.remember(shape.sizes);
  }
}

void keep_results(CommState& state) noexcept {
  if (state.rank != 0 || state.size < 2 || world_ends()) return;
  try {
    note(state);
  } catch (const std::exception& e) {
    log_info("what a communicator has found is left out", e.what());
  }
}

std::string results_report() {
  if (!keeps_file()) return {};
  const auto known = locked<Notes>();
  const std::string file = " (" + results_file(own_options()) + ")";
  if (known->used.sizes == 0) return "no earlier run's results fit" + file;
  return words("earlier runs' results begin ", known->used.sizes, " sizes, ", known->used.refuted,
               " of them hold no more", file);
}

void save_results() noexcept {
  try {
    if (keeps_file()) save();
  } catch (const std::exception& e) {
    log_info("cache: not written", e.what());
  }
}

}  // namespace tapa
