/// @file
/// What ranks have told each other of the edges of a topology, for calls along them that go by messages.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "comm/mean_block.hpp"
#include "plan/choose.hpp"
#include "plan/counts.hpp"
#include "plan/planner.hpp"
#include "run/edges.hpp"
#include "run/small_reduce.hpp"

namespace tapa {

/// The operation whose turn it is asks agree() and `mean`, with no lock held, as MPI is called.
class Neighbourhood {
 public:
  /// Whether all ranks know the shape(); called until they do. `tag`: that of `mean`. Throws CallError.
  [[nodiscard]] bool agree(const MessageSpace& space, int tag, int rank, const Edges& edges,
                           const Topology& topology) {
    if (known_) return true;
    if (!sums_.pending()) {
      const std::uint64_t sent = edges.send.blocks.size();
      const std::array<std::uint64_t, 3> own{sent, peers_elsewhere(topology, rank, edges.send), sent == 0};
      constexpr std::array<Combine, 3> how{Combine::sum, Combine::sum, Combine::max};
      sums_.start(space, tag, rank, topology.ranks, own, how);
    }
    if (!sums_.test()) return false;
    const auto sums = sums_.result();
    const std::uint64_t pairs = pairs_apart(topology);
    shape_.blocks = std::max<std::uint64_t>(sums[0], 1);
    shape_.share = pairs == 0 ? 1 : static_cast<double>(sums[1]) / static_cast<double>(pairs);
    shape_.everywhere = sums[2] == 0;
    return known_ = true;
  }
  [[nodiscard]] const EdgeShape& shape() const { return shape_; }

  /// The numbers of blocks from rank to rank that a choice has to know; null: they have not been told yet.
  [[nodiscard]] const Counts* blocks(const Choice& choice) const {
    const auto found = blocks_.find(knowledge_of(choice));
    return found != blocks_.end() ? &found->second : nullptr;
  }
  void learn(const Choice& choice, Counts blocks) {
    blocks_.insert_or_assign(knowledge_of(choice), std::move(blocks));
  }

  /// The topology is another one.
  void forget() {
    known_ = false;
    blocks_.clear();
  }
  /// Gives up what may be under way; there are no calls after it.
  void give_up() {
    mean.give_up();
    sums_.give_up();
  }

  MeanBlock mean;  ///< of blocks that are not empty by their edges

 private:
  static std::uint64_t peers_elsewhere(const Topology& topology, int rank, const Edges::Side& side) {
    return static_cast<std::uint64_t>(std::ranges::count_if(side.peers, [&](const Edges::Peer& peer) {
      return topology.node_of(peer.rank) != topology.node_of(rank);
    }));
  }

  /// Pairs of ranks on different nodes.
  static std::uint64_t pairs_apart(const Topology& topology) {
    std::vector<std::uint64_t> ranks(static_cast<std::size_t>(topology.nodes()));
    for (int r = 0; r < topology.ranks; ++r) ++ranks[static_cast<std::size_t>(topology.node_of(r))];
    std::uint64_t pairs = 0;
    for (const std::uint64_t own : ranks) pairs += own * (static_cast<std::uint64_t>(topology.ranks) - own);
    return pairs;
  }

  /// Ranks with the same knowledge need the same counts.
  static std::string knowledge_of(const Choice& choice) {
    const Knowledge needed = knowledge_needed(choice);
    if (needed == Knowledge::group) return choice.splits.back();
    return needed == Knowledge::own ? "" : " all";
  }

  bool known_ = false;
  EdgeShape shape_;
  SmallReduce sums_;
  std::map<std::string, Counts> blocks_;  // by who has to know them
};

}  // namespace tapa
