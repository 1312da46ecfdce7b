/// @file
/// Command line of the benchmarks: the options of the OSU micro-benchmarks and ours.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "nic_bound.hpp"

namespace tapa::bench {

/// Which kind of benchmark asks; decides which options exist.
enum class Kind { alltoall, alltoallv, alltoallw, ialltoall, persistent, select };

/// Which blocks are long: all alike; half of all bytes are rank 0's; every tenth block has ten times the size
/// and the others are empty; those to, or from, the first two ranks have all bytes.
enum class Shape { even, half, sparse, to_few, from_few };

/// How a call is made. Nonblocking and persistent ones are started and waited for; MPI's rival of a
/// persistent call is its blocking one, since few MPIs have persistent collectives.
enum class Form { blocking, nonblocking, persistent };

/// What is sent: chars; doubles; doubles with gaps of one double between them (received without gaps).
enum class Elements { chars, doubles, gaps };

struct Options {
  std::size_t min_bytes = 1;
  std::size_t max_bytes = std::size_t{1} << 20;
  int step = 2;                   ///< factor from one size to the next
  std::optional<int> iterations;  ///< -i: exactly so many; else what fits into `seconds`
  std::optional<int> warmup;  ///< -x: exactly so many untimed calls; else OSU's numbers as far as they fit
  int settle = 0;             ///< --settle: calls of ours before all others, in which plans are probed
  int late = 0;               ///< --late: microseconds that the last rank sleeps before each call
  double seconds = 5;         ///< --time: budget of one size, all contenders together
  int burst = 1;              ///< --burst: calls in a row between two barriers; times are of one of them
  bool full = false;          ///< -f
  bool validate = false;      ///< -c
  int validation_calls = 5;   ///< -u: calls that are validated
  std::size_t memory_limit = std::size_t{512} << 20;  ///< -M, bytes of one rank's buffer
  int test_calls = 0;                   ///< -t, ialltoall: MPI_Test calls during the computation
  bool in_place = false;                ///< -l, alltoall
  bool registered = false;              ///< --buffers registered: send buffers are TAPA_Alloc's
  bool use_mpi = false;                 ///< --library mpi: time MPI's call instead of ours
  bool versus_mpi = false;              ///< --versus mpi
  bool versus_nccl = false;             ///< --versus nccl
  bool on_gpu = false;                  ///< -d cuda: buffers are in the memory of the rank's GPU
  std::string nccl = "libnccl.so.2";    ///< --nccl
  std::vector<std::string> plans;       ///< --plan: forced plans raced beside the library's own choice
  std::string json;                     ///< --json
  std::optional<NicRate> nic_rate;      ///< --nic-bound or TAPA_NIC_RATE
  double imbalance = 0;                 ///< alltoallv, w: blocks have (1 - f) to (1 + f) times the size
  Shape shape = Shape::even;            ///< --shape, alltoallv, w
  Form form = Form::blocking;           ///< --form, alltoallv, w
  Elements elements = Elements::chars;  ///< --elements, alltoall
  int rows = 16;                        ///< select: rows of a block
  double active = 0.25;                 ///< select: fraction of active rows
  bool everywhere = false;              ///< select: only active rows travel inside a node too

  [[nodiscard]] bool versus() const { return versus_mpi || versus_nccl; }
};

/// What parse() found. With `exit_code` the program ends at once, after rank 0 has printed `message`.
struct Parsed {
  Options options;
  std::optional<int> exit_code;
  std::string message;
};

/// Never throws; a wrong command line is an exit code and a message that names the option, its value and what
/// was expected.
[[nodiscard]] Parsed parse(Kind kind, const std::string& program, const std::string& title, int argc,
                           char** argv);

/// The sizes to run: min, min * step, ... up to max; after 0 comes 1, as in OSU. Sizes whose buffers of
/// `ranks` blocks exceed the memory limit are left out.
[[nodiscard]] std::vector<std::size_t> sizes(const Options& options, int ranks);

}  // namespace tapa::bench
