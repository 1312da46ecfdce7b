#include "comm/neighbourhood.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "plan/planner.hpp"

namespace tapa {

namespace {

std::uint64_t peers_elsewhere(const Topology& topology, int rank, const Edges::Side& side) {
  return static_cast<std::uint64_t>(std::ranges::count_if(side.peers, [&](const Edges::Peer& peer) {
    return topology.node_of(peer.rank) != topology.node_of(rank);
  }));
}

/// Pairs of ranks on different nodes.
std::uint64_t pairs_apart(const Topology& topology) {
  std::vector<std::uint64_t> ranks(static_cast<std::size_t>(topology.nodes()));
  for (int r = 0; r < topology.ranks; ++r) ++ranks[static_cast<std::size_t>(topology.node_of(r))];
  std::uint64_t pairs = 0;
  for (const std::uint64_t own : ranks) pairs += own * (static_cast<std::uint64_t>(topology.ranks) - own);
  return pairs;
}

/// Ranks with the same knowledge need the same counts.
std::string knowledge_of(const Choice& choice) {
  const Knowledge needed = knowledge_needed(choice);
  if (needed == Knowledge::group) return choice.splits.back();
  return needed == Knowledge::own ? "" : " all";
}

}  // namespace

bool Neighbourhood::agree(const MessageSpace& space, int tag, int rank, const Edges& edges,
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

const Counts* Neighbourhood::blocks(const Choice& choice) const {
  const auto found = blocks_.find(knowledge_of(choice));
  return found != blocks_.end() ? &found->second : nullptr;
}

void Neighbourhood::learn(const Choice& choice, Counts blocks) {
  blocks_.insert_or_assign(knowledge_of(choice), std::move(blocks));
}

void Neighbourhood::forget() {
  known_ = false;
  blocks_.clear();
}

void Neighbourhood::give_up() {
  mean.give_up();
  sums_.give_up();
}

}  // namespace tapa
