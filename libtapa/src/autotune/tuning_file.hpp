/// @file
/// The tuning file: what tapa-tune measured on a machine, and how the library uses it. No MPI.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plan/choose.hpp"
#include "plan/cost.hpp"
#include "topology/topology.hpp"

namespace tapa {

class JsonReader;

/// A longer file is none.
inline constexpr std::size_t max_tuning_bytes = std::size_t{16} << 20;

/// What was measured for messages whose fastest common level is this one.
struct TunedLevel {
  std::string name;
  int groups = 0;               ///< number of groups; with the names, the shape that the file is for
  double latency = 0;           ///< seconds, one way, small message, one pair
  double bandwidth = 0;         ///< bytes per second and direction, one pair alone
  double shared_bandwidth = 0;  ///< bytes per second and direction of one pair when all ranks have one
  double message = 0;           ///< CPU seconds per message and end
};

/// Contents of a file of format "tapa-tuning/1": what was measured, options by name, or both.
struct Tuning {
  std::vector<std::pair<std::string, std::string>> options;
  std::string machine;             ///< host names, for people
  std::string mpi;                 ///< MPI library, for people
  std::string date;                ///< ISO 8601, for people
  int ranks = 0;                   ///< 0: nothing was measured
  std::vector<TunedLevel> levels;  ///< fast to slow, as the topology's
  double copy = 0;                 ///< bytes per second of a local copy
  double nic_bandwidth = 0;        ///< bytes per second of one NIC, 0 when no level crosses NICs
  double cores_per_rank = 1;       ///< share of a processor that each rank has when all compute
  std::vector<Measurement> measurements;
};

/// Checks a text. Throws std::invalid_argument: "tuning file `path`: $.PLACE: VALUE, expected ...".
[[nodiscard]] Tuning parse_tuning(const std::string& text, const std::string& path);

/// A plan by its text, in any file. Throws std::invalid_argument.
[[nodiscard]] Choice read_choice(const JsonReader& value);

/// The file's text.
[[nodiscard]] std::string tuning_json(const Tuning& tuning);

/// `base` with the file's figures for every level of the topology that the file has by name.
[[nodiscard]] Rates tuned_rates(const Tuning& tuning, const Topology& topology, const Rates& base);

/// Whether the measured times hold for this topology: same ranks, same levels, same groups.
[[nodiscard]] bool same_shape(const Tuning& tuning, const Topology& topology);

/// The file's measurements when same_shape(), else none.
[[nodiscard]] std::vector<Measurement> tuned_measurements(const Tuning& tuning, const Topology& topology);

}  // namespace tapa
