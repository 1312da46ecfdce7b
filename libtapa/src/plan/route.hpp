/// @file
/// Every algorithm is a rule that gives each block (src, dst) its route: the hops by which it gets from src
/// to dst, each in a stage. Blocks that make the same hop in the same stage travel in one message. One
/// builder (build.hpp) turns any such rule into a plan, so an algorithm is only its rule.
///
/// The rule has three parts, any of which may be empty: inside the source's group to a relay (fast), between
/// the relays of the two groups (slow), inside the destination's group (fast). The fast parts recur at the
/// next faster split.
///   tapa, fast first: the relay in the source's group is the member of the destination's lane; no third
///   part. tapa, slow first: the relay in the destination's group is the member of the source's lane; no
///   first part. leaders: the relays are leaders, one of k for each destination. linear, pairwise, bruck: no
///   split, one flat exchange of all ranks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/choice.hpp"
#include "plan/partition.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace tapa {

/// One hop of a block. Hops of equal (stage, lot, from, to) share a message.
struct Hop {
  int stage = 0;
  int lot = 0;       ///< sub-message of a pipelined stage
  int distance = 0;  ///< cyclic distance in the set that exchanges, 1 .. n-1; the order in which to post
  int from = -1;
  int to = -1;
};

/// How the messages of a stage are posted.
struct StageOrder {
  bool lockstep = false;  ///< pairwise: a distance waits for the one before it
  int window = 0;         ///< linear: sends in flight, 0 = no bound
  Phase phase;            ///< name and level
};

/// The routes of one choice on one topology. Immutable; O(ranks) memory.
class Routes {
 public:
  /// Throws std::invalid_argument with the reason when the choice does not fit the topology.
  Routes(const Topology& topology, const Choice& choice);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int lots() const { return lots_; }
  [[nodiscard]] const std::vector<StageOrder>& stages() const { return stages_; }

  /// Whether a message between these ranks goes through NICs.
  [[nodiscard]] bool leaves_node(int from, int to) const {
    return node_[static_cast<std::size_t>(from)] != node_[static_cast<std::size_t>(to)];
  }

  /// Appends the hops from src to dst, in order. Nothing when src == dst.
  void route(int src, int dst, std::vector<Hop>& hops) const;

  /// Calls visit(src, dst) once for every block that may pass through `rank`, and for no more blocks than
  /// O(those that start or end in its slowest group, plus those that a slow bruck relays).
  void for_blocks_near(int rank, const std::function<void(int, int)>& visit) const;

 private:
  /// The groups at one split, and their places in the domain that they divide (a group of the next slower
  /// split).
  struct Split {
    Partition groups;
    std::vector<int> place;                   ///< place[group] in its domain
    std::vector<int> domain;                  ///< domain[group]
    std::vector<std::vector<int>> in_domain;  ///< in_domain[domain]: groups, ascending
    int most_groups = 1;                      ///< largest number of groups in a domain
  };
  /// First stages of the three parts at a depth; `out` is `in` where there is no third part.
  struct Parts {
    int in = 0, slow = 0, out = 0, end = 0;
  };

  void add_split(const Topology& topology, int level);
  [[nodiscard]] Parts parts(std::size_t depth, int base) const;
  [[nodiscard]] int stage_count(std::size_t depth) const;
  void name_stages(const Topology& topology, std::size_t depth, int base, const std::string& prefix);
  void name_flat(const Flat& flat, int base, int members, const std::string& name, int level);
  [[nodiscard]] const Flat& innermost_flat() const;
  [[nodiscard]] int relay(std::size_t depth, int group, int src, int dst) const;
  void inside(std::size_t depth, int from, int to, int base, int lot, std::vector<Hop>& hops) const;
  void between(std::size_t depth, int from, int to, int base, int lot, std::vector<Hop>& hops) const;
  void flat_bruck_blocks(int rank, const std::function<void(int, int)>& visit) const;
  void slow_bruck_blocks(int rank, const std::function<void(int, int)>& visit) const;

  int ranks_ = 0;
  std::vector<int> node_;  // of each rank
  Choice choice_;
  std::vector<Split> splits_;  // slow to fast
  std::vector<int> split_levels_;
  Partition innermost_;  // groups inside which the last flat exchange runs
  int lots_ = 1;
  std::vector<StageOrder> stages_;
};

/// Stages that a flat exchange of `members` ranks needs: 1, or the digits of members-1 for bruck.
[[nodiscard]] int flat_stages(const Flat& flat, int members);

}  // namespace tapa
