// tapa-tune: measures the machine that the job runs on and writes a tuning file for TAPA_TUNING.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "autotune/tuning_file.hpp"
#include "files/environment.hpp"
#include "measure.hpp"
#include "plan/choose.hpp"
#include "topology/detect_mpi.hpp"
#include "version_flag.hpp"
#include "write_file.hpp"

namespace {

struct Options {
  std::string output = "tapa-tuning.json";
  bool dry_run = false;
  bool quiet = false;
  tapa::TuneRequest request;
};

struct Parsed {
  Options options;
  std::optional<int> exit_code;
  std::string message;
};

Parsed parse(int argc, char** argv) {
  Parsed parsed;
  Options& o = parsed.options;
  CLI::App app(
      "Measures links, cores and all-to-alls of this job's machine, for TAPA_TUNING=FILE.\n"
      "Run it with as many ranks, placed alike, as the programs that will use the file.",
      "tapa-tune");
  tapa::add_version_flag(app);
  app.add_option("-o,--output", o.output, "tuning file to write")->capture_default_str();
  app.add_option("--time", o.request.seconds, "seconds that measuring may take")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("--sizes", o.request.sizes, "bytes per pair at which plans are timed, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 26))
      ->capture_default_str();
  app.add_flag("-n,--dry-run", o.dry_run, "print what would be measured, and measure and write nothing");
  app.add_flag("-q,--quiet", o.quiet, "print nothing but errors");
  try {
    app.parse(argc, argv);
    std::sort(o.request.sizes.begin(), o.request.sizes.end());
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    parsed.exit_code = app.exit(error, out, out);
    parsed.message = out.str();
  }
  return parsed;
}

void print_plan_of_work(const tapa::Topology& topology, const Options& options) {
  std::printf("# %d ranks, levels (groups):", topology.ranks);
  for (const tapa::Level& level : topology.levels) {
    std::printf(" %s (%d)", level.name.c_str(), level.groups);
  }
  std::printf("\n# sizes:");
  for (const std::size_t bytes : options.request.sizes) {
    std::printf(" %zu", bytes);
  }
  std::printf("\n# plans, the most promising of which are timed in at most %g s:\n", options.request.seconds);
  for (const tapa::Choice& choice : tapa::candidates(topology, {true, true})) {
    std::printf("%s\n", to_string(choice).c_str());
  }
}

void print_machine(const tapa::Tuning& tuning) {
  std::printf("# %s\n# %s\n# %d ranks, %.2f cores per rank, copies at %.2f GB/s", tuning.machine.c_str(),
              tuning.mpi.c_str(), tuning.ranks, tuning.cores_per_rank, tuning.copy / 1e9);
  if (tuning.nic_bandwidth > 0) {
    std::printf(", a NIC carries %.2f MB/s", tuning.nic_bandwidth / 1e6);
  }
  std::printf("\n# %-10s%10s%14s%14s%20s%20s\n", "Level", "Groups", "Latency(us)", "Message(us)",
              "Alone(MB/s)", "All at once(MB/s)");
  for (const tapa::TunedLevel& level : tuning.levels) {
    std::printf("  %-10s%10d%14.2f%14.2f%20.2f%20.2f\n", level.name.c_str(), level.groups,
                level.latency * 1e6, level.message * 1e6, level.bandwidth / 1e6,
                level.shared_bandwidth / 1e6);
  }
}

void print_choices(const tapa::Tuning& tuning) {
  std::printf("# %-10s%14s  %s\n", "Size", "Time(us)", "Plan, the fastest first");
  std::vector<tapa::Measurement> sorted = tuning.measurements;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
  });
  for (const tapa::Measurement& m : sorted) {
    std::printf("  %-10zu%14.2f  %s\n", m.bytes, m.seconds * 1e6, to_string(m.choice).c_str());
  }
}

void print_left_out(const tapa::Tuning& tuning, const std::vector<std::size_t>& sizes) {
  for (const std::size_t bytes : sizes) {
    if (std::none_of(tuning.measurements.begin(), tuning.measurements.end(),
                     [bytes](const tapa::Measurement& m) { return m.bytes == bytes; })) {
      std::printf("# no time was left for %zu bytes\n", bytes);
    }
  }
}

void run(const Options& options, int rank) {
  const char* override_text = files::variable("TAPA_TOPOLOGY");
  const tapa::Topology topology = tapa::detect(MPI_COMM_WORLD, override_text == nullptr ? "" : override_text);
  if (options.dry_run) {
    if (rank == 0) {
      print_plan_of_work(topology, options);
    }
    return;
  }
  if (rank == 0) tapa::require_writable("--output", options.output);
  const bool verbose = rank == 0 && !options.quiet;
  const tapa::Tuning tuning =
      tapa::measure(MPI_COMM_WORLD, topology, options.request, [verbose](const std::string& what) {
        if (verbose) {
          std::fprintf(stderr, "measuring %s\n", what.c_str());
        }
      });
  if (verbose) {
    print_machine(tuning);
    print_choices(tuning);
    print_left_out(tuning, options.request.sizes);
  }
  if (rank == 0) {
    tapa::write_file("--output", options.output, tapa::tuning_json(tuning));
  }
  if (verbose) {
    std::printf("# written: %s\n", options.output.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const Parsed parsed = parse(argc, argv);
  int code = parsed.exit_code.value_or(0);
  if (parsed.exit_code) {
    if (rank == 0) {
      std::fputs(parsed.message.c_str(), code == 0 ? stdout : stderr);
    }
  } else {
    try {
      run(parsed.options, rank);
    } catch (const std::exception& error) {
      // Others may be waiting for this rank, so all must end.
      std::fprintf(stderr, "tapa-tune: %s\n", error.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Finalize();
  return code;
}
