/// @file
/// How an operation comes to its plan when its turn has come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "carry/mpi_sample.hpp"
#include "comm/call_notes.hpp"
#include "comm/comm_state.hpp"
#include "plan/counts.hpp"
#include "route/ways.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"
#include "run/log.hpp"

namespace tapa {

/// A call as its operation has it.
struct Call {
  std::shared_ptr<CommState> state;
  std::shared_ptr<const Rules> rules;  ///< as they are when it begins
  const char* function = "";
  MPI_Comm comm = MPI_COMM_NULL;  ///< blocking: the program's
  Mode mode = Mode::blocking;
  Exchange exchange;
  bool has_arguments = false;               ///< of one of MPI's forms: MPI could carry it out
  bool large = false;                       ///< with large counts, which MPI may not have
  const Edges* edges = nullptr;             ///< of a call along the edges of a topology
  std::optional<std::size_t> edge_bytes{};  ///< then: of each block, where this rank sends as many along each
  bool own_memory = false;                  ///< persistent: it has a region to itself
  TagWindow tags{};

  /// What this call can use; alike on all ranks.
  [[nodiscard]] Offer offer() const {
    // MPI may not take large counts. Nonblocking calls for which it is the choice have not come here.
    const bool countable = exchange.uniform || !large || rules->mpi_is_forced;
    const auto parts = state->parts();
    const bool memory = mode == Mode::persistent ? own_memory : parts->regions.available();
    const bool only_memory = edges != nullptr && edges_go_through_memory(*parts, memory);
    return {has_arguments && mode == Mode::blocking && countable && !only_memory, memory,
            mode != Mode::blocking, edges != nullptr && !only_memory};
  }
};

/// Of one call.
class Choosing {
 public:
  /// Counts of all blocks, alike on all ranks; `mean`: the block to choose by; `key`: what the plan depends
  /// on.
  void know_counts(std::shared_ptr<const Counts> counts, std::size_t mean, std::vector<std::size_t> key) {
    known_ = std::move(counts);
    mean_ = mean;
    key_ = std::move(key);
  }

  /// Whether shared memory will carry it, as far as is known; step() keeps to it. Alike on all ranks always.
  [[nodiscard]] bool goes_through_memory(const Call& c) {
    const auto look = [&] {
      const Offer can = c.offer();
      const auto parts = c.state->parts();
      if (!can.memory || !parts->chooser.one_choice() || c.rules->mpi_is_forced || known_) return false;
      const auto& plan = c.rules->plan;
      if (plan || c.rules->compares()) return !plan || plan->algorithm == Algorithm::memory;
      const std::size_t bytes =
          c.exchange.uniform ? c.exchange.uniform_bytes : parts->mean.shared().value_or(0);
      Way way;
      if (c.mode == Mode::blocking) way = way_of(*parts, c.exchange.uniform, bytes, can);
      if (way.kind == Way::Kind::settled)
        return decide(*parts, c.exchange.uniform, bytes, can).choice.algorithm == Algorithm::memory;
      return way.kind != Way::Kind::agree && way.next().algorithm == Algorithm::memory;
    };
    return by_memory_ = look();
  }

  enum class Step : std::uint8_t {
    wait,    ///< not yet: the ranks are agreeing
    chosen,  ///< entry() is there
    counts,  ///< take_counts() wants them first
  };
  /// Goes on; `tag`: of the operation, for what competitions agree on. Throws CallError.
  [[nodiscard]] Step step(const Call& c, int tag) {
    const bool uniform = c.exchange.uniform;
    const bool along = c.edges != nullptr && !by_memory_;
    if (along ? !learn_edges(c, tag) : !uniform && !learn_mean(c)) return Step::wait;
    std::size_t bytes = bytes_per_pair(c.exchange);
    if (!uniform && !along) {
      const auto parts = c.state->parts();
      if (exchange_tells_mean(*parts)) bytes = parts->mean.shared().value_or(0);
    }
    if (!next_probe(c, tag, bytes)) return Step::wait;
    const Offer offer = c.offer();
    if (const auto parts = c.state->parts(); !decision_) {
      if (uniform && !by_memory_) {
        entry_ = uniform_plan(*parts, bytes, offer);
        return Step::chosen;
      }
      decision_ = by_memory_ ? parts->chooser.decide(bytes, offer) : decide(*parts, alike(c), bytes, offer);
    }
    if (uniform) {
      plan(c, Counts::uniform(c.state->size, bytes), {bytes});
    } else if (known_) {
      plan(c, *known_, key_);
    } else if (const Algorithm algorithm = decision_->choice.algorithm;
               algorithm == Algorithm::memory || algorithm == Algorithm::mpi) {
      // In shared buffers blocks tell their sizes themselves; MPI has its own way.
      plan(c, Counts::uniform(c.state->size, bytes_per_pair(c.exchange)), {});
    } else {
      return plan_along_edges(c) ? Step::chosen : Step::counts;
    }
    return Step::chosen;
  }
  /// The choice of a call whose counts are wanted: in bytes, or in blocks that all have the same size.
  [[nodiscard]] const Choice& choice() const { return decision_->choice; }
  [[nodiscard]] bool wants_blocks() const { return edge_bytes_.has_value(); }
  /// `key`: what they depend on.
  void take_counts(const Call& c, Counts counts, const std::vector<std::size_t>& key) {
    if (!edge_bytes_) return plan(c, counts, key);
    c.state->parts()->neighbourhood.learn(decision_->choice, std::move(counts));
    static_cast<void>(plan_along_edges(c));
  }

  [[nodiscard]] const std::shared_ptr<PlanEntry>& entry() const { return entry_; }
  /// The competition whose probe the call is.
  [[nodiscard]] const std::optional<ProbeKey>& tried() const { return tried_; }
  /// Bytes of a block, or of a mean one where they differ; alike on all ranks.
  [[nodiscard]] std::size_t bytes_per_pair(const Exchange& exchange) const {
    return exchange.uniform ? exchange.uniform_bytes : mean_.value_or(0);
  }

  /// The call has ended, or failed: tells the autotuner how long a probe took, and what the next call with
  /// blocks of other sizes goes by. `memory`: bytes of all ranks, where memory carried it.
  void end(const Call& c, double seconds, std::optional<std::uint64_t> memory) {
    const auto parts = c.state->parts();
    if (entry_ && c.mode == Mode::blocking && !c.exchange.uniform && exchange_tells_mean(*parts)) {
      if (memory) parts->mean.note(memory, c.state->size);
      if (entry_->choice.algorithm == Algorithm::mpi) parts->mean.note(std::nullopt, c.state->size);
    }
    if (tried_)
      parts->tuner.record(*std::exchange(tried_, std::nullopt), seconds, total_bytes(c.exchange.send));
  }

 private:
  /// Whether calls over shared buffers tell all ranks the mean block on the side.
  static bool exchange_tells_mean(const CommParts& parts) {
    return parts.regions.available() && parts.chooser.one_choice() && !parts.chooser.forced();
  }

  /// The mean of blocks of different sizes; false: not yet.
  [[nodiscard]] bool learn_mean(const Call& c) {
    if (mean_ || !c.rules->enable || c.state->parts()->chooser.one_choice()) return true;
    MeanBlock& mean = c.state->parts()->mean;  // only the operation whose turn it is asks it; no lock is held
    const int tag = c.state->parts()->order.mean_tag();
    const std::uint64_t blocks = c.state->parts()->chooser.blocks(false);
    mean_ =
        mean.agree(c.state->space, tag, c.state->rank, c.state->size, blocks, total_bytes(c.exchange.send));
    return mean_.has_value();
  }

  /// The size of blocks along edges, or their mean one; false: not yet.
  [[nodiscard]] bool learn_edges(const Call& c, int tag) {
    if (mean_) return true;
    CommState& state = *c.state;
    Neighbourhood& all = state.parts()->neighbourhood;  // as above
    if (!all.agree(state.space, tag, state.rank, *c.edges, *c.rules->topology)) return false;
    state.parts()->chooser.set_edges(all.shape());
    if (all.shape().everywhere) mean_ = edge_bytes_ = c.edge_bytes;
    if (mean_ || state.parts()->chooser.one_choice()) return true;
    const int mean_tag = state.parts()->order.edges_tag();
    mean_ = all.mean.agree(state.space, mean_tag, state.rank, state.size, all.shape().blocks,
                           total_bytes(c.exchange.send));
    return mean_.has_value();
  }

  /// What a competition says of the call; false: the ranks are about to agree on what to probe next.
  [[nodiscard]] bool next_probe(const Call& c, int tag, std::size_t bytes) {
    if (c.mode != Mode::blocking || (by_memory_ && c.rules->compares())) return true;
    const Offer offer = c.offer();
    Way way = way_of(*c.state->parts(), alike(c), bytes, offer);
    if (way.kind == Way::Kind::agree) {
      if (!way.running->agree(c.state->space, tag, c.state->rank)) return false;
      const auto parts = c.state->parts();
      way.running->end_round(bytes, offer);
      const Autotuning& tuned = way.running->now();
      if (tuned.complete()) {
        if (c.state->rank == 0 && tuned.choices().size() > 1) log_info(way.running->outcome());
        parts->chooser.cache().clear();
        way.kind = Way::Kind::settled;
      } else {
        way.kind = tuned.resting() ? Way::Kind::resting : Way::Kind::probe;
      }
    }
    const bool probe = way.kind == Way::Kind::probe;
    if (probe || way.kind == Way::Kind::resting)
      decision_ = {way.next(), to_string(way.next()), probe ? kProbed : "the fastest so far", 0};
    const auto parts = c.state->parts();
    if (probe)
      tried_ = way.key;
    else if (way.running != nullptr)
      way.running->count();
    return true;
  }

  /// From numbers of blocks that are known already.
  [[nodiscard]] bool plan_along_edges(const Call& c) {
    std::optional<Counts> counts;
    if (edge_bytes_) {
      const auto parts = c.state->parts();
      const Counts* const blocks = parts->neighbourhood.blocks(decision_->choice);
      if (blocks == nullptr) return false;
      const std::size_t key[2] = {*edge_bytes_, Counts::npos};
      entry_ = parts->chooser.cache().find(decision_->text, key);
      if (!entry_) counts = blocks->times(*edge_bytes_);
    }
    if (counts) plan(c, *counts, {*edge_bytes_, Counts::npos});
    return entry_ != nullptr;
  }

  void plan(const Call& c, const Counts& counts, const std::vector<std::size_t>& key) {
    const std::size_t bytes = bytes_per_pair(c.exchange);
    entry_ = c.state->parts()->chooser.plan_for(decision_->text, *decision_, counts, key, bytes);
  }
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
