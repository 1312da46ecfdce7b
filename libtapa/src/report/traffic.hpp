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

/// Bytes to each member of a communicator in calls whose blocks differ, from some of the calls. Not
/// thread-safe.
class Traffic {
 public:
  /// A call begins: for how many its blocks are to be added; 0: they need not be looked at.
  [[nodiscard]] std::uint64_t begin();
  void add(std::size_t member, double bytes);
  /// By member; may be shorter.
  [[nodiscard]] const std::vector<double>& bytes() const { return bytes_; }

 private:
  std::uint64_t calls_ = 0;
  std::vector<double> bytes_;
};

/// Bytes to each member in calls whose blocks are all equal.
[[nodiscard]] double bytes_to_each(std::span<const ReportRow> rows);

/// Bytes between ranks whose fastest common level this is.
struct LevelBytes {
  std::string name;  ///< of the level; "node" where that is the world
  double bytes = 0;
};
/// A rank's, to others, for each level of the topology. `sent`: by rank.
[[nodiscard]] std::vector<LevelBytes> bytes_by_level(const Topology& topology, int rank,
                                                     std::span<const double> sent);

}  // namespace tapa
