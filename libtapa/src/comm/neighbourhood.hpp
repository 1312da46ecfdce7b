/// @file
/// What ranks have told each other of the edges of a topology, for calls along them that go by messages.
#pragma once

#include <map>
#include <string>

#include "comm/mean_block.hpp"
#include "plan/choose.hpp"
#include "plan/counts.hpp"
#include "run/edges.hpp"
#include "run/small_reduce.hpp"

namespace tapa {

/// The operation whose turn it is asks agree() and `mean`, with no lock held, as MPI is called.
class Neighbourhood {
 public:
  /// Whether all ranks know the shape(); called until they do. `tag`: that of `mean`. Throws CallError.
  [[nodiscard]] bool agree(const MessageSpace& space, int tag, int rank, const Edges& edges,
                           const Topology& topology);
  [[nodiscard]] const EdgeShape& shape() const { return shape_; }

  /// The numbers of blocks from rank to rank that a choice has to know; null: they have not been told yet.
  [[nodiscard]] const Counts* blocks(const Choice& choice) const;
  void learn(const Choice& choice, Counts blocks);

  /// The topology is another one.
  void forget();
  /// Gives up what may be under way; there are no calls after it.
  void give_up();

  MeanBlock mean;  ///< of blocks that are not empty by their edges

 private:
  bool known_ = false;
  EdgeShape shape_;
  SmallReduce sums_;
  std::map<std::string, Counts> blocks_;  // by who has to know them
};

}  // namespace tapa
