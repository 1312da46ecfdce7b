/// @file
/// Which plan calls take, and the plans that were made. Ranks decide alike without messages, as all follows
/// from what they have agreed on.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "autotune/autotuner.hpp"
#include "comm/plan_cache.hpp"
#include "plan/choose.hpp"
#include "plan/counts.hpp"
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
  void set(std::shared_ptr<const Options> options, MachineView machine);

  /// What all ranks know of edges, before anything is decided for calls along them.
  void set_edges(const EdgeShape& edges) { edges_ = edges; }

  [[nodiscard]] const std::shared_ptr<const Options>& options() const { return options_; }
  [[nodiscard]] const MachineView& machine() const { return machine_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  [[nodiscard]] std::vector<Candidate> ranked(std::size_t bytes, Offer offer) const override;
  [[nodiscard]] bool tunes(std::size_t bytes) const override;
  [[nodiscard]] bool one_choice() const override;
  [[nodiscard]] std::uint64_t blocks(bool edges) const override;
  [[nodiscard]] bool memory_first() const override;
  [[nodiscard]] bool possible(const Choice& choice, bool memory) const override;

  /// Whether MPI is asked for, or a plan that cannot be carried out: it gets every call as it was made.
  [[nodiscard]] bool mpi_is_forced() const;
  /// Whether blocks of that size go through shared memory without a try.
  [[nodiscard]] bool sure(std::size_t bytes) const {
    return !forced() && one_choice() && bytes <= machine_.sure_bytes;
  }
  /// Whether some plan is asked for by name.
  [[nodiscard]] bool forced() const;

  /// The choice for (mean) blocks of `bytes` when autotuning has found none. Throws CallError where
  /// TAPA_CHECK=mpi,plan refuses a forced plan.
  [[nodiscard]] Decision decide(std::size_t bytes, Offer offer);

  /// The plan for `counts`, made when it is not in the cache under `name` and `key`, all numbers on which it
  /// depends; a mean block has `mean` bytes.
  [[nodiscard]] std::shared_ptr<PlanEntry> plan_for(std::string_view name, const Decision& decision,
                                                    const Counts& counts, std::span<const std::size_t> key,
                                                    std::size_t mean);
  [[nodiscard]] PlanCache& cache() { return cache_; }

 private:
  [[nodiscard]] Decision decide_forced(const Choice& choice, Offer offer);

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
