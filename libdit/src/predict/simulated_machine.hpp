/// All-to-alls on a machine that nobody here has: run by tapa-sim, libtapa's plans and MPI on SimGrid.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace dit {

/// One all-to-all of equal blocks, in seconds.
struct SimulatedExchange {
  double flat = 0;     ///< MPI_Alltoall as Open MPI's selector carries it out; 0 where it was not asked for
  double tapa = 0;     ///< libtapa's choice
  std::string choice;  ///< as a plan's text
};

class SimulatedMachine {
 public:
  /// A name or file as tapa-sim takes it. Throws std::runtime_error when tapa-sim is not there, or what it
  /// does not take.
  explicit SimulatedMachine(std::string name);
  [[nodiscard]] const std::string& name() const { return name_; }  ///< as the machine calls itself
  [[nodiscard]] int ranks_per_node() const { return ranks_per_node_; }
  /// Of all ranks of so many nodes; simulate() must have been asked for it.
  [[nodiscard]] SimulatedExchange exchange(int nodes, std::size_t bytes) const;
  /// Runs what is not known yet of blocks of these sizes (each > 0); with `flat` MPI's exchange too, which
  /// takes the simulator much longer.
  void simulate(int nodes, const std::vector<std::size_t>& bytes, bool flat);

 private:
  std::string asked_;
  std::string name_;
  int ranks_per_node_ = 0;
  std::map<std::pair<int, std::size_t>, SimulatedExchange> known_;
};

}  // namespace dit
