/// @file
/// What tapa-sim found, and how it is printed.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tapa::sim_tool {

/// All contenders at one size. Times in microseconds.
struct Row {
  std::size_t bytes = 0;
  std::map<std::string, double> plans;
  std::map<std::string, double> rivals;
  std::map<std::string, double> predicted;  ///< of plans, by the cost model
  std::string choice;                       ///< the library's
  std::string best;                         ///< fastest of `plans`
  double regret = 1;                        ///< time of the choice over time of the best plan
  double busiest_nic_bytes = 0;             ///< sent by one NIC under the choice
  bool checked = false;                     ///< whether every byte of every exchange was compared
};

struct Report {
  std::string machine;
  int ranks = 0;
  int nodes = 0;
  std::string placement;
  std::vector<Row> rows;
};

/// Fastest rival of a row: name and time; an empty name when there is none.
[[nodiscard]] std::pair<std::string, double> best_rival(const Row& row);

/// A table and a summary: the largest regret, the speedups over the rivals.
[[nodiscard]] std::string report_text(const Report& report);

/// {"machine", "ranks", "nodes", "placement", "rows": [{"bytes", "plans": {name: us}, "rivals": {name: us},
/// "predicted_us", "choice", "regret", "best", "predicted", "busiest_nic_bytes", "checked"}]}
[[nodiscard]] std::string report_json(const Report& report);

/// Time against size, both logarithmic: the choice, the best plan and the rivals, as SVG.
[[nodiscard]] std::string report_svg(const Report& report);

}  // namespace tapa::sim_tool
