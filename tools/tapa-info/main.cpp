// tapa-info: what the machine looks like to libtapa, from where it knows, and what may be wrong with it.
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <stdexcept>

#include "autotune/results_file.hpp"
#include "comm/device_way.hpp"
#include "comm/results_store.hpp"
#include "device/tokens.hpp"
#include "files/environment.hpp"
#include "files/input_file.hpp"
#include "info.hpp"
#include "tapa/device_mpi.h"
#include "topology/detect.hpp"
#include "topology/detect_mpi.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"
#include "version_flag.hpp"
#include "world/hello.hpp"
#include "world/options.hpp"
#include "world/process_options.hpp"
#include "write_file.hpp"

namespace {

struct Arguments {
  std::string topology;
  int ranks = 0;
  bool round_robin = false;
  bool json = false;
  std::string svg;
  bool machines = false;
  bool algorithms = false;
  bool options = false;
  bool device = false;
  bool all = false;
  std::string write;
  std::vector<std::size_t> sizes = {16, 1024, 65536};
};

void describe(CLI::App& app, Arguments& a) {
  app.add_option("--topology", a.topology,
                 "show this instead: 2x2x3 (groups, slow to fast), a machine, or a file.json");
  app.add_option("--ranks", a.ranks,
                 "with --topology MACHINE: number of ranks (default: those of mpirun, or a full node)")
      ->check(CLI::Range(1, tapa::max_ranks));
  app.add_flag("--round-robin", a.round_robin, "with --topology MACHINE: place ranks on the nodes in turn");
  app.add_flag("--json", a.json, "JSON, schema tapa-info/1");
  app.add_option("--svg", a.svg,
                 "write a picture of levels, ranks, NICs and rails to this file (- for standard output)");
  app.add_option("--write", a.write,
                 "write the topology as a file for TAPA_TOPOLOGY (- for standard output)");
  app.add_flag("--machines", a.machines, "list the described machines");
  app.add_flag("--algorithms", a.algorithms, "list the algorithms, with predicted times for this topology");
  app.add_option("--sizes", a.sizes, "with --algorithms: bytes per pair, separated by commas")
      ->delimiter(',');
  app.add_flag("--options", a.options, "list the options, their values and where these come from");
  app.add_flag("--device", a.device,
               "say how device buffers would travel between the ranks, in and between nodes");
  app.add_flag("--all", a.all, "list all nodes (default: 4)");
}

/// What --topology says, without asking the machine.
tapa::Topology described(const Arguments& a, int mpi_ranks) {
  if (tapa::looks_like_factors(a.topology)) {
    tapa::Topology topology = tapa::make_uniform_topology(tapa::parse_factors(a.topology));
    if (a.ranks != 0 && a.ranks != topology.ranks) {
      throw std::invalid_argument("--ranks " + std::to_string(a.ranks) + ": " + a.topology + " has " +
                                  std::to_string(topology.ranks) + " ranks");
    }
    return topology;
  }
  const int ranks = a.ranks != 0 ? a.ranks : mpi_ranks > 1 ? mpi_ranks : 0;
  return tapa::load_topology(a.topology, ranks,
                             a.round_robin ? tapa::Placement::round_robin : tapa::Placement::block);
}

/// What the ranks of MPI_COMM_WORLD say, or what TAPA_TOPOLOGY puts in its place. Collective.
tapa::Topology detected(std::vector<tapa::Record>& records) {
  const std::vector<std::string> texts =
      tapa::gather_records(MPI_COMM_WORLD, tapa::to_json(tapa::describe_process(true)));
  for (std::size_t r = 0; r < texts.size(); ++r) {
    records.push_back(tapa::parse_record(texts[r], "record of rank " + std::to_string(r)));
  }
  const char* forced = files::variable("TAPA_TOPOLOGY");
  if (forced != nullptr && *forced != '\0') return tapa::detect(MPI_COMM_WORLD, forced);
  tapa::Topology topology = tapa::merge_records(records);
  tapa::compare_with_mpi(MPI_COMM_WORLD, topology);
  return topology;
}

void put(const std::string& option, const std::string& path, const std::string& text) {
  if (path == "-")
    std::cout << text;
  else
    tapa::write_file(option, path, text);
}

tapa::Options options_of_process(std::vector<std::string>& warnings) {
  return tapa::with_tuning_file(tapa::Options::from_environment(files::variables(), warnings));
}

std::string options_table() {
  std::vector<std::string> warnings;
  const tapa::Options options = options_of_process(warnings);
  std::string out;
  for (const tapa::OptionInfo& info : tapa::option_table()) {
    const auto shown = [](std::string_view text) { return text.empty() ? "(none)" : std::string(text); };
    out += (info.variable.empty() ? "tuning file" : std::string(info.variable)) + " (" +
           std::string(info.name) + "): " + shown(options.text(info.name)) + " from " +
           std::string(to_string(options.origin(info.name))) + "\n    " + std::string(info.help) + "\n    " +
           std::string(info.allowed) + "; default " + shown(info.standard) + "\n";
  }
  for (const std::string& warning : warnings) out += "warning: " + warning + "\n";
  return out;
}

/// What ranks with buffers in GPU memory may expect. Collective.
std::optional<tapa::info::DeviceBuffers> devices(const tapa::Topology& topology,
                                                 const std::vector<tapa::Record>& records) {
  int holds[2] = {tapa::has_device_engine() ? 1 : 0, tapa::mpi_takes_device_memory() ? 1 : 0};
  MPI_Allreduce(MPI_IN_PLACE, holds, 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  tapa::DeviceFacts facts;
  facts.built = holds[0] != 0;
  facts.mpi_takes = holds[1] != 0;
  facts.most_ranks = TAPA_DEVICE_MAX_RANKS;
  facts.most_joined = tapa::device::kMaxTokens;
  std::vector<std::string> warnings;
  const tapa::Options options = options_of_process(warnings);
  return tapa::info::device_buffers(topology, records, facts, options.settings());
}

/// What earlier runs have left for jobs like this one.
std::string earlier_results() {
  std::vector<std::string> warnings;
  const tapa::Options options = options_of_process(warnings);
  tapa::info::ResultsFile file;
  file.path = tapa::results_file(options);
  if (!file.path.empty()) {
    try {
      file.content = tapa::parse_results(files::read_text(file.path, tapa::kMostResultsBytes), file.path);
    } catch (const files::FileError& error) {
      if (!error.is_missing()) file.problem = error.what();
    } catch (const std::invalid_argument& error) {
      file.problem = error.what();
    }
  }
  return tapa::info::results_text(file, tapa::results_where(options), tapa::today());
}

/// Everything that rank 0 prints.
void show(const Arguments& a, const tapa::Topology& topology, const std::vector<tapa::Record>& records,
          const std::optional<tapa::info::DeviceBuffers>& buffers) {
  const int nodes = a.all ? topology.nodes() : 4;
  if (a.algorithms) {
    std::cout << tapa::info::algorithms_table(topology, a.sizes);
    return;
  }
  if (!a.svg.empty())
    put("--svg", a.svg, tapa::info::as_svg(topology, records, a.all ? topology.nodes() : 16));
  if (!a.write.empty()) put("--write", a.write, tapa::write_topology(topology));
  if (a.json)
    std::cout << tapa::info::as_json(topology, records, buffers, a.topology.empty() ? earlier_results() : "");
  else if (a.svg.empty() && a.write.empty()) {
    std::cout << tapa::info::as_text(topology, records, buffers, nodes);
    if (a.topology.empty()) std::cout << "\nresults of earlier runs\n  " << earlier_results() << "\n";
  }
}

/// How the device engine joins the ranks, or why it does not. Collective.
std::string device_buffers() {
  TAPA_Device_comm comm = TAPA_DEVICE_COMM_NULL;
  if (TAPA_Device_comm_create_mpi(MPI_COMM_WORLD, nullptr, &comm) != TAPA_DEVICE_SUCCESS)
    return std::string("device buffers: not exchanged: ") + TAPA_Device_last_error() + "\n";
  const char* text = "";
  (void)TAPA_Device_describe(comm, &text);
  std::string line = std::string("device buffers: ") + text + "\n";
  (void)TAPA_Device_comm_free(&comm);
  return line;
}

int run(const Arguments& a) {
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (a.machines || a.options) {
    if (rank == 0) std::cout << (a.machines ? tapa::info::machines_table() : options_table());
    return 0;
  }
  if (a.device) {
    const std::string line = device_buffers();
    if (rank == 0) std::cout << line;
    return 0;
  }
  std::vector<tapa::Record> records;
  const tapa::Topology topology = a.topology.empty() ? detected(records) : described(a, ranks);
  const auto buffers = devices(topology, records);
  if (rank == 0) show(a, topology, records, buffers);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("What libtapa knows of this machine, and from where. Alone, or under mpirun for all ranks.",
               "tapa-info");
  tapa::add_version_flag(app);
  describe(app, arguments);
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);  // for --device
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int code = 0;
  std::string message;
  try {
    app.parse(argc, argv);
    code = run(arguments);
  } catch (const CLI::ParseError& error) {
    std::ostringstream nowhere;
    code = rank == 0 ? app.exit(error) : app.exit(error, nowhere, nowhere);
  } catch (const std::exception& error) {
    message = error.what();
    code = 1;
  }
  if (rank == 0 && !message.empty()) std::cerr << "tapa-info: " << message << "\n";
  MPI_Finalize();
  return code;
}
