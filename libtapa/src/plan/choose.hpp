/// @file
/// Picks a plan for a message size from predictions and measurements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/cost.hpp"

namespace tapa {

/// A measured time of one choice at one size, from the tuning file.
struct Measurement {
  Choice choice;
  std::size_t bytes = 0;  ///< per pair
  double seconds = 0;
};

/// A candidate with its price and where the price came from.
struct Candidate {
  Choice choice;
  double seconds = 0;
  bool measured = false;
};

/// A choice with its reason, agreed between the ranks because it depends on agreed things only.
struct Decision {
  Choice choice;
  std::string text;      ///< text form of the choice
  std::string why;       ///< one sentence
  double predicted = 0;  ///< seconds, 0 = unknown
};

/// What a call can use.
struct Offer {
  bool mpi = false;     ///< leave it to MPI
  bool memory = false;  ///< the ranks share memory; counts only where the topology is one node
  /// It runs overlapped with computation: between two looks at it, steps in lock-step stand still.
  bool overlapped = false;
  bool edges = false;  ///< its blocks go along the edges of a topology, through messages
  friend bool operator==(const Offer&, const Offer&) = default;
};

/// Whether a choice goes in lock-step: as many steps as there are members, each waiting for a peer's.
[[nodiscard]] bool lock_step(const Choice& choice);

/// The plausible choices for this topology: flat ones, and hierarchical ones at every useful split.
[[nodiscard]] std::vector<Choice> candidates(const Topology& topology, Offer offer);

/// All candidates, cheapest first. A candidate with measurements is priced by them (log-linear between
/// sizes), others by predict(). Between sizes at which anything was measured, candidates that were not timed
/// on both sides come last: they were passed over for better ones. Deterministic: ties go to the earlier one
/// of candidates().
[[nodiscard]] std::vector<Candidate> rank_candidates(const Topology& topology, const Rates& rates,
                                                     const std::vector<Measurement>& measurements,
                                                     std::size_t bytes, Offer offer);

/// What all ranks know of the edges of a communicator's topology.
struct EdgeShape {
  std::uint64_t blocks = 0;  ///< that all ranks send together
  double share = 1;          ///< of the pairs of ranks on different nodes: those that have a block
  bool everywhere = false;   ///< each rank sends one: all know the size of equal blocks
};

/// The plans for blocks of `bytes` along edges, cheapest first: each block by itself, or those between two
/// nodes together.
[[nodiscard]] std::vector<Candidate> rank_along_edges(const Topology& topology, const Rates& rates,
                                                      const EdgeShape& shape, std::size_t bytes, Offer offer);

/// Whether plans were timed at sizes on both sides of this one.
[[nodiscard]] bool covered(const std::vector<Measurement>& measurements, std::size_t bytes);

/// A time as people are told it.
[[nodiscard]] std::string in_microseconds(double seconds);

/// One sentence: why the first was taken and by how much it beats the runner-up.
[[nodiscard]] std::string why(const std::vector<Candidate>& ranked);

}  // namespace tapa
