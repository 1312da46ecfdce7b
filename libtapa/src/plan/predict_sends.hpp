/// @file
/// Who sends how many messages to whom in an exchange: from an algorithm's pattern to a load of levels and
/// NICs.
#pragma once

#include "plan/predict_load.hpp"
#include "plan/predict_view.hpp"
#include "topology/topology.hpp"

namespace tapa::prediction {

/// One flat exchange between groups, or inside one.
struct Set {
  int below = -1;                  // level whose groups are the members; -1: ranks are
  int upto = 0;                    // level inside which they exchange
  double places = 1;               // members
  double block = 0;                // bytes for each pair of members
  double active = 1;               // ranks of a group of `upto` that take part
  double gathers = 0;              // share of the blocks that does not lie together before,
  double scatters = 0;             // or after
  double out = 1;                  // messages to each other member, for the busiest rank
  double in = 1;                   // and from each
  double even = 1;                 // what a rank sends on average, of what the busiest sends
  std::vector<double> ranks = {};  // of each member, where they are unequal
  std::size_t place = 0;           // which of them is meant
};

/// Whether the ranks of every group of a level follow one another, so that their blocks lie together.
[[nodiscard]] bool consecutive(const Topology& topology, int level);

/// Where ranks follow one another on their nodes they send to their own node first: the share of it.
[[nodiscard]] double own_node_first(const Topology& topology, const Load& load);

/// How many ranks the groups of a set have, where they are unequal.
void look_at_members(const Topology& topology, const View& view, Set& set);

/// Bytes that the busiest rank passes on in one digit of a stage of Bruck's algorithm. Where members have
/// unequal numbers of ranks, a small one has a message for each lane of a large one; sets `out`, `in`,
/// `even`.
[[nodiscard]] double passed_on(Set& set, long long radix, long long power, long long digit);

/// Adds the messages of the ranks of one node to loads. Both are borrowed.
class Sends {
 public:
  Sends(const Topology& topology, const View& view) : topology_(topology), view_(view) {}

  /// Messages to all members alike.
  void spread(Load& load, const Set& set, double messages, double bytes) const;
  /// A message of every member to the one `distance` places on: where groups follow one another, near ones
  /// leave few of them.
  void send_on(Load& load, const Set& set, double distance, double bytes) const;
  /// The same among all ranks, by looking where they are: any placement.
  void send_on_of_all(Load& load, const Set& set, int distance, double bytes) const;

 private:
  void add_share(Load& load, int level, double share, const Set& set, double bytes) const;

  const Topology& topology_;
  const View& view_;
};

}  // namespace tapa::prediction
