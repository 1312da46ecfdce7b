/// @file
/// Which plan calls take, and plans that were made. Ranks decide alike: all follows from what they agreed on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "autotune/autotuner.hpp"
#include "comm/plan_cache.hpp"
#include "plan/choose.hpp"
#include "plan/counts.hpp"
#include "plan/planner.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "topology/topology.hpp"
#include "world/options.hpp"

namespace tapa {

/// What the ranks of a communicator know of their machine.
struct MachineView {
  std::shared_ptr<const Topology> topology;
  Rates rates;
  std::vector<Measurement> measurements;  ///< of the tuning file
  bool shares_buffers = false;            ///< all ranks are on one node and share memory
  std::size_t sure_bytes = 0;             ///< blocks up to that are known to travel fastest in shared memory
  bool crowded = false;                   ///< there are more ranks than cores
  bool gpu_memory = false;                ///< buffers may be in GPU memory: all is MPI's
};

/// Not thread-safe.
class PlanChooser final : public CandidateSource {
 public:
  PlanChooser(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  /// What plans depend on is new: what was decided before is forgotten.
  void set(std::shared_ptr<const Options> options, MachineView machine) {
    options_ = std::move(options);
    machine_ = std::move(machine);
    decided_.reset();
    cache_.clear();
    cache_.set_limit(options_->settings().keep);
  }

  /// What all ranks know of edges, before anything is decided for calls along them.
  void set_edges(const EdgeShape& edges) { edges_ = edges; }

  [[nodiscard]] const std::shared_ptr<const Options>& options() const { return options_; }
  [[nodiscard]] const MachineView& machine() const { return machine_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  [[nodiscard]] std::vector<Candidate> ranked(std::size_t bytes, Offer offer) const override {
    if (offer.edges) return rank_along_edges(*machine_.topology, machine_.rates, edges_, bytes, offer);
    // MPI is a candidate only where it was measured: its time cannot be predicted.
    const bool mpi_measured = std::ranges::any_of(
        machine_.measurements, [](const Measurement& m) { return m.choice.algorithm == Algorithm::mpi; });
    offer.mpi = offer.mpi && mpi_measured;
    auto ranked = rank_candidates(*machine_.topology, machine_.rates, machine_.measurements, bytes, offer);
    // Where ranks share memory it comes first for all sizes, whatever the model says: short ways rely on
    // that.
    const auto is_memory = [](const Candidate& c) { return c.choice.algorithm == Algorithm::memory; };
    if (one_choice()) std::stable_partition(ranked.begin(), ranked.end(), is_memory);
    return ranked;
  }

  [[nodiscard]] bool tunes(std::size_t bytes) const override {
    const Settings& settings = options_->settings();
    return settings.adapt && !forced() && !sure(bytes) && !covered(machine_.measurements, bytes);
  }

  [[nodiscard]] bool one_choice() const override {
    return forced() ||
           (machine_.shares_buffers && machine_.topology->nodes() == 1 && machine_.measurements.empty());
  }

  [[nodiscard]] std::uint64_t blocks(bool edges) const override {
    const auto ranks = static_cast<std::uint64_t>(ranks_);
    return edges ? edges_.blocks : ranks * ranks;
  }
  [[nodiscard]] bool memory_first() const override { return one_choice() && !forced() && !machine_.crowded; }

  [[nodiscard]] bool possible(const Choice& choice, bool memory) const override {
    if (choice.algorithm == Algorithm::mpi) return true;
    if (choice.algorithm == Algorithm::memory) return memory && machine_.shares_buffers;
    if (one_choice()) return false;  // short ways know of no other
    const std::vector<Choice> all = candidates(*machine_.topology, {false, memory, false});
    return std::ranges::find(all, choice) != all.end();
  }

  /// Whether MPI is asked for, or a plan that cannot be carried out: it gets every call as it was made.
  [[nodiscard]] bool mpi_is_forced() const {
    const Settings& settings = options_->settings();
    if (!settings.enable || machine_.gpu_memory) return true;
    if (!settings.plan) return false;
    const Choice& plan = *settings.plan;
    if (plan.algorithm == Algorithm::mpi) return true;
    if (settings.strict_plan) return false;  // it is refused
    return !why_not(*machine_.topology, plan).empty() ||
           (plan.algorithm == Algorithm::memory && !machine_.shares_buffers);
  }
  /// Whether blocks of that size go through shared memory without a try.
  [[nodiscard]] bool sure(std::size_t bytes) const {
    return !forced() && one_choice() && bytes <= machine_.sure_bytes;
  }

  /// Whether some plan is asked for by name.
  [[nodiscard]] bool forced() const {
    const Settings& settings = options_->settings();
    return !settings.enable || settings.plan.has_value() || machine_.gpu_memory;
  }

  /// The choice for (mean) blocks where autotuning has found none. Throws CallError for TAPA_CHECK=mpi,plan.
  [[nodiscard]] Decision decide(std::size_t bytes, Offer offer) {
    const Settings& settings = options_->settings();
    if (!settings.enable && offer.mpi) return {{Algorithm::mpi}, "mpi", "TAPA_ENABLE=0", 0};
    if (machine_.gpu_memory && offer.mpi) return {{Algorithm::mpi}, "mpi", "a rank uses a GPU", 0};
    if (settings.plan) return decide_forced(*settings.plan, offer);
    if (offer.memory && sure(bytes) && !settings.explain)
      return {{Algorithm::memory}, "memory", "the fastest for blocks of this size", 0};
    if (decided_ && decided_->bytes == bytes && decided_->offer == offer) return decided_->decision;
    Decision decision{{}, to_string(Choice{}), "the only candidate", 0};
    if (const auto candidates = ranked(bytes, offer); !candidates.empty()) {
      const Candidate& best = candidates.front();
      decision = {best.choice, to_string(best.choice), why(candidates), best.seconds};
    }
    decided_ = Decided{bytes, offer, decision};
    return decision;
  }

  /// The plan for `counts`, made where the cache has none under `name` and `key`, on which it depends.
  [[nodiscard]] std::shared_ptr<PlanEntry> plan_for(std::string_view name, const Decision& decision,
                                                    const Counts& counts, std::span<const std::size_t> key,
                                                    std::size_t mean) {
    if (auto entry = cache_.find(name, key)) return entry;
    auto entry = std::make_shared<PlanEntry>();
    static_cast<Decision&>(*entry) = decision;
    entry->bytes = mean;
    if (decision.choice.algorithm != Algorithm::mpi && decision.choice.algorithm != Algorithm::memory) {
      entry->plan =
          std::make_shared<const RankPlan>(plan_rank(*machine_.topology, counts, decision.choice, rank_));
      entry->phases = phases_of(*machine_.topology, decision.choice);
    }
    cache_.insert(name, key, entry);
    return entry;
  }
  [[nodiscard]] PlanCache& cache() { return cache_; }

 private:
  [[nodiscard]] Decision decide_forced(const Choice& choice, Offer offer) {
    const Settings& settings = options_->settings();
    if (choice.algorithm != Algorithm::mpi) {
      std::string reason = why_not(*machine_.topology, choice);
      if (reason.empty() && choice.algorithm == Algorithm::memory && !offer.memory)
        reason = "the ranks share no memory for it";
      if (reason.empty()) return {choice, to_string(choice), "forced", 0};
      const std::string message = "plan " + to_string(choice) + " cannot be carried out: " + reason;
      if (settings.strict_plan) refuse(MPI_ERR_ARG, message);
      if (!warned_fallback_ && rank_ == 0) {
        log_warn(message + "; " + (offer.mpi ? "MPI" : "linear") + " is used instead");
      }
      warned_fallback_ = true;
    }
    // Without MPI's own persistent collectives, linear is what MPI would do.
    const Choice instead{offer.mpi ? Algorithm::mpi : Algorithm::linear};
    return {instead, to_string(instead), choice.algorithm == Algorithm::mpi ? "forced" : "fallback", 0};
  }

  /// What was decided last: nonblocking calls ask in each call, mostly the same.
  struct Decided {
    std::size_t bytes;
    Offer offer;
    Decision decision;
  };

  int rank_;
  int ranks_;
  std::shared_ptr<const Options> options_;
  MachineView machine_;
  EdgeShape edges_;
  bool warned_fallback_ = false;
  std::optional<Decided> decided_;  ///< by ranks, not forced
  PlanCache cache_;
};

}  // namespace tapa
