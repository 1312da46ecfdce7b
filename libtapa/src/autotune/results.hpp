/// @file
/// What competitions have found, from one run of a program to the next: what holds where, how results of a
/// run join older ones, and what the next run may begin with. Pure: no MPI, no files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/choice.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// Where a time was measured, as far as one rank knows by itself. Times hold where all is equal.
struct ResultsWhere {
  std::string libtapa;   ///< version
  std::string mpi;       ///< what MPI says of its version
  std::string cpu;       ///< model and number of processors
  std::string settings;  ///< digest of all settings that plans or MPI's times depend on
  int job = 0;           ///< ranks of MPI_COMM_WORLD
  bool operator==(const ResultsWhere&) const = default;
  /// Whether it is the same machine with the same libraries.
  [[nodiscard]] bool same_machine(const ResultsWhere& other) const {
    return libtapa == other.libtapa && mpi == other.mpi && cpu == other.cpu;
  }
};

/// A plan that was called.
struct PlanResult {
  Choice choice;
  double seconds = 0;     ///< median of the slowest rank's times
  int samples = 0;        ///< calls
  bool given_up = false;  ///< clearly slower than another one
  bool operator==(const PlanResult&) const = default;
};

/// Calls of one class of sizes.
struct SizeResult {
  bool uniform = false;   ///< all blocks of a call are equal
  std::size_t bytes = 0;  ///< of a (mean) block, a power of two or 0
  bool decided = false;   ///< the first plan has won; else it is the best so far
  int day = 0;            ///< since 1970, when it was measured; 0: in this run
  std::vector<PlanResult> plans;
  bool operator==(const SizeResult&) const = default;
};

/// All communicators with the same ranks in the same places.
struct ShapeResults {
  ResultsWhere where;
  int ranks = 0;
  std::string topology;  ///< digest of what plans depend on
  std::vector<SizeResult> sizes;
  bool operator==(const ShapeResults&) const = default;
  [[nodiscard]] bool same_place(const ShapeResults& other) const {
    return where == other.where && ranks == other.ranks && topology == other.topology;
  }
};

/// Contents of the file, and what a run adds.
struct Results {
  std::vector<ShapeResults> shapes;
  bool operator==(const Results&) const = default;
};

/// Most of each that is kept, and read.
inline constexpr std::size_t kMostShapeResults = 64;
inline constexpr std::size_t kMostSizeResults = 96;  ///< of a shape
inline constexpr std::size_t kMostPlanResults = 8;   ///< of a size
/// Longer files are neither written nor read.
inline constexpr std::size_t kMostResultsBytes = std::size_t{64} << 10;
/// Days after which a result holds no more: what it came from may have changed without a new version.
inline constexpr int kResultsDays = 30;

/// How calls of a size may begin.
enum class ResultsStart : std::uint8_t {
  compete,  ///< as without: all candidates but those that were given up, of which MPI is none
  mpi,      ///< MPI's: no plan was faster
  trial,    ///< with the first plan, which was faster than MPI, and must be so again
};
[[nodiscard]] ResultsStart start_from(const SizeResult& size);

/// What holds today, of one machine: the shapes of communicators of `ranks` ranks (0: of any number).
[[nodiscard]] std::vector<ShapeResults> fitting(const Results& results, const ResultsWhere& where, int ranks,
                                                int today);

/// What one communicator has found, added to what others of the same run have.
void add_to_run(Results& run, ShapeResults shape);

/// What the file should hold after a run: its results in place of older ones of the same sizes, the shape
/// that changed last first, nothing that is too old of these shapes. May be more than a text has room for.
[[nodiscard]] Results merged(Results before, const Results& run, int today);

// What times depend on, as short digests.

/// 16 hexadecimal digits, the same in every process and on every machine.
[[nodiscard]] std::string digest_of(std::string_view text);

/// Of all that plans depend on: levels and who is where in them, NICs, cores, whether the ranks share memory.
[[nodiscard]] std::string topology_digest(const Topology& topology, bool shares_buffers);

/// Settings of MPI's own in an environment (NAME=value strings, ended by null) that decide how it carries
/// data, sorted, without those that differ from job to job or rank to rank.
[[nodiscard]] std::vector<std::string> mpi_settings(const char* const* environment);

}  // namespace tapa
