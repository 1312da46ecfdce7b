// The job around a benchmark: MPI, the command line, the machine.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>

#include "driver.hpp"
#include "gpu.hpp"
#include "mpi_algorithms.hpp"
#include "tapa/tapa.h"
#include "write_file.hpp"

namespace tapa::bench {

namespace {

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

// Node of every rank: ranks that can share memory, numbered by first rank.
std::vector<int> nodes_of(MPI_Comm comm, int rank, int ranks) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  int first = rank;
  MPI_Bcast(&first, 1, MPI_INT, 0, node);
  MPI_Comm_free(&node);
  std::vector<int> first_of(static_cast<std::size_t>(ranks));
  MPI_Allgather(&first, 1, MPI_INT, first_of.data(), 1, MPI_INT, comm);
  std::vector<int> leaders = first_of;
  std::sort(leaders.begin(), leaders.end());
  leaders.erase(std::unique(leaders.begin(), leaders.end()), leaders.end());
  for (int& f : first_of) {
    f = static_cast<int>(std::lower_bound(leaders.begin(), leaders.end(), f) - leaders.begin());
  }
  return first_of;
}

}  // namespace

void check(int code, const std::string& what) {
  if (code == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  std::fprintf(stderr, "%s: %s\n", what.c_str(), text.data());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

Machine describe_machine(MPI_Comm comm) {
  Machine machine;
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &machine.ranks);
  machine.node_of = nodes_of(comm, rank, machine.ranks);
  machine.nodes = *std::max_element(machine.node_of.begin(), machine.node_of.end()) + 1;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  machine.host = host.data();
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  MPI_Get_library_version(version.data(), &length);
  machine.mpi = std::string(version.data()).substr(0, std::string(version.data()).find('\n'));
  machine.date = now();
  machine.processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return machine;
}

std::string plan_of(MPI_Comm comm, std::size_t bytes) {
  std::array<char, 512> text{};
  int length = 0;
  unsigned long long agreed = bytes;
  MPI_Bcast(&agreed, 1, MPI_UNSIGNED_LONG_LONG, 0, comm);
  check(TAPA_Comm_plan(comm, static_cast<std::size_t>(agreed), text.data(), static_cast<int>(text.size()),
                       &length),
        "TAPA_Comm_plan");
  return text.data();
}

Session::Session(const Program& program, int& argc, char**& argv) {
  allow_algorithm_choice();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  parsed_ = parse(program.kind, program.name, program.title, argc, argv);
  if (ended()) {
    if (rank_ == 0) {
      std::fputs(parsed_.message.c_str(), exit_code() == 0 ? stdout : stderr);
    }
    return;
  }
  if (parsed_.options.on_gpu && !use_gpu()) return;
  machine_ = describe_machine(MPI_COMM_WORLD);
  if (rank_ == 0 && !parsed_.options.json.empty()) {
    // Found out before an hour of measuring, not after it.
    try {
      require_writable("--json", parsed_.options.json);
    } catch (const std::invalid_argument& error) {
      std::fprintf(stderr, "%s: %s\n", program.name.c_str(), error.what());
      parsed_.exit_code = 1;
    }
  }
  int code = exit_code();
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (code != 0) {
    parsed_.exit_code = code;
  }
}

/// Whether buffers can be in GPU memory, for us and for whom we are compared with; else it ends the program.
bool Session::use_gpu() {
  std::string why = take_gpu(MPI_COMM_WORLD);
  const Options& o = parsed_.options;
  const char* const preload = std::getenv("LD_PRELOAD");
  const bool taken_over =
      preload != nullptr && std::string(preload).find("tapa_preload") != std::string::npos;
  if (why.empty() && (o.versus_mpi || (o.use_mpi && !taken_over)) && !mpi_takes_gpu_memory())
    why = "MPI says that it does not take buffers in GPU memory, expected one that is CUDA-aware";
  if (why.empty()) return true;
  if (rank_ == 0) std::fprintf(stderr, "-d cuda: %s\n", why.c_str());
  parsed_.exit_code = 1;
  return false;
}

Session::~Session() {
  MPI_Finalize();
}

void Session::print(const std::string& text) const {
  if (rank_ == 0) {
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
}

}  // namespace tapa::bench
