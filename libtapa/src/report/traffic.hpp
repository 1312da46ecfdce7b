/// @file
/// To whom this rank sends how much, for the report's word on the order of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/report.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// Of bytes to a rank, those between buffers in GPU memory that the device engine has moved: between GPUs
/// that reach each other, and that do not.
struct GpuBytes {
  double reached = 0;
  double unreached = 0;
};

/// Bytes to each member of a communicator in calls whose blocks differ, from some of the calls, and in all
/// calls of the device engine. Not thread-safe.
class Traffic {
 public:
  /// A call begins: for how many its blocks are to be added; 0: they need not be looked at.
  [[nodiscard]] std::uint64_t begin();
  void add(std::size_t member, double bytes);
  void add_of_gpus(std::size_t member, double bytes, bool reached);
  /// By member; may be shorter.
  [[nodiscard]] const std::vector<double>& bytes() const { return bytes_; }
  [[nodiscard]] const std::vector<GpuBytes>& of_gpus() const { return of_gpus_; }

 private:
  std::uint64_t calls_ = 0;
  std::vector<double> bytes_;
  std::vector<GpuBytes> of_gpus_;
};

/// Bytes to each member in calls whose blocks are all equal.
[[nodiscard]] double bytes_to_each(std::span<const ReportRow> rows);

/// Bytes between ranks whose fastest common level this is.
struct LevelBytes {
  std::string name;  ///< of the level; "node" where that is the world
  double bytes = 0;
};
/// A rank's, to others: first, of GPUs of its node, "gpu", those that it reaches, and "host", those that it
/// does not, whom its host's memory joins; then the rest, for each level of the topology. `sent`: by rank;
/// `of_gpus`: likewise, what of that the device engine has moved.
[[nodiscard]] std::vector<LevelBytes> bytes_by_level(const Topology& topology, int rank,
                                                     std::span<const double> sent,
                                                     std::span<const GpuBytes> of_gpus);

}  // namespace tapa
