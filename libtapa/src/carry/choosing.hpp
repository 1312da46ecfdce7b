/// @file
/// How an operation comes to its plan when its turn has come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/comm_state.hpp"
#include "plan/counts.hpp"
#include "route/ways.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// A call as its operation has it.
struct Call {
  std::shared_ptr<CommState> state;
  std::shared_ptr<const Rules> rules;  ///< as they are when it begins
  const char* function = "";
  MPI_Comm comm = MPI_COMM_NULL;  ///< blocking: the program's
  Mode mode = Mode::blocking;
  Exchange exchange;
  bool has_arguments = false;             ///< of one of MPI's forms: MPI could carry it out
  bool large = false;                     ///< with large counts, which MPI may not have
  const Edges* edges = nullptr;           ///< of a call along the edges of a topology
  std::optional<std::size_t> edge_bytes;  ///< then: of each block, where this rank sends as many along each
  bool own_memory = false;                ///< persistent: it has a region to itself
  TagWindow tags;

  /// What this call can use; alike on all ranks.
  [[nodiscard]] Offer offer() const;
};

class Choosing {
 public:
  /// Forgets the last call.
  void begin();
  /// Counts of all blocks, alike on all ranks; `mean`: of a block, by which the plan is chosen; `key`:
  /// numbers on which it depends.
  void know_counts(std::shared_ptr<const Counts> counts, std::size_t mean, std::vector<std::size_t> key);

  /// Whether shared memory will carry the call, as far as is known; step() keeps to it. Alike on all ranks,
  /// also where the two ends of a block differ.
  [[nodiscard]] bool goes_through_memory(const Call& call);

  enum class Step : std::uint8_t {
    wait,    ///< not yet: the ranks are agreeing
    chosen,  ///< entry() is there
    counts,  ///< take_counts() wants them first
  };
  /// Goes on; `tag`: of the operation, for what competitions agree on. Throws CallError.
  [[nodiscard]] Step step(const Call& call, int tag);
  /// The choice of a call whose counts are wanted: in bytes, or in blocks that all have the same size.
  [[nodiscard]] const Choice& choice() const { return decision_->choice; }
  [[nodiscard]] bool wants_blocks() const { return edge_bytes_.has_value(); }
  /// `key`: what they depend on.
  void take_counts(const Call& call, Counts counts, const std::vector<std::size_t>& key);

  [[nodiscard]] const std::shared_ptr<PlanEntry>& entry() const { return entry_; }
  /// The competition whose probe the call is.
  [[nodiscard]] const std::optional<ProbeKey>& tried() const { return tried_; }
  /// Bytes of a block, or of a mean one where they differ; alike on all ranks.
  [[nodiscard]] std::size_t bytes_per_pair(const Exchange& exchange) const {
    return exchange.uniform ? exchange.uniform_bytes : mean_.value_or(0);
  }

  /// The call has ended, or failed: tells the autotuner how long a probe took, and what the next call with
  /// blocks of other sizes goes by. `memory`: bytes of all ranks, where memory carried it.
  void end(const Call& call, double seconds, std::optional<std::uint64_t> memory);

 private:
  [[nodiscard]] bool learn_mean(const Call& call);
  [[nodiscard]] bool learn_edges(const Call& call, int tag);
  [[nodiscard]] bool next_probe(const Call& call, int tag, std::size_t bytes);
  [[nodiscard]] bool plan_along_edges(const Call& call);
  void plan(const Call& call, const Counts& counts, const std::vector<std::size_t>& key);
  /// Whether all blocks that are not empty by the edges are known to have one size.
  [[nodiscard]] bool alike(const Call& call) const { return call.exchange.uniform || edge_bytes_; }

  std::shared_ptr<const Counts> known_;
  std::vector<std::size_t> key_;
  std::optional<std::size_t> mean_;        // agreed
  std::optional<std::size_t> edge_bytes_;  // of all blocks along edges, where all ranks know it
  bool by_memory_ = false;
  std::optional<Decision> decision_;
  std::optional<ProbeKey> tried_;
  std::shared_ptr<PlanEntry> entry_;
};

}  // namespace tapa
