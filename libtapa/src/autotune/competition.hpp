/// @file
/// The competition of plans for the calls of one key, as long as its communicator lives: it begins with an
/// earlier run's result or by the model, and what it has decided is looked at again now and then.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "autotune/autotuning.hpp"
#include "autotune/candidates.hpp"
#include "autotune/probe_budget.hpp"
#include "autotune/results.hpp"
#include "plan/choose.hpp"
#include "run/small_reduce.hpp"

namespace tapa {

/// What a call goes by when plans are probed: calls of the same key compete with each other.
struct ProbeKey {
  bool uniform = false;
  bool mpi = false;  ///< whether MPI may carry it out
  std::size_t size_class = 0;
  bool edges = false;  ///< of calls along the edges of a topology
  auto operator<=>(const ProbeKey&) const = default;
};

/// What the competitions of a communicator have in common; alike on all ranks.
struct Terms {
  const CandidateSource& source;
  int ranks;
  ProbeBudget budget{};
  /// Sizes that began with a result of an earlier run, and those of them where it did not hold.
  struct Used {
    int sizes = 0;
    int refuted = 0;
  } used{};
};

class Competition {
 public:
  /// `terms` and `earlier` (null: there was no run) are kept; a call of `bytes` and this offer begins it.
  Competition(Terms& terms, const ProbeKey& key, std::vector<Choice> choices, const SizeResult* earlier,
              std::size_t bytes, Offer offer);

  [[nodiscard]] const Autotuning& now() const { return now_; }
  /// The last one that has ended, or null.
  [[nodiscard]] const Autotuning* ended() const { return now_.complete() ? &now_ : before_.get(); }
  /// What is known, as far as another run could use it. `aging`: see Autotuner::results().
  [[nodiscard]] SizeResult result(int aging) const;
  /// For the log: the best first.
  [[nodiscard]] std::string outcome() const;

  /// Whether the next call takes the same way as the last one, and is no probe.
  [[nodiscard]] bool repeats() const { return now_.complete() ? until_review_ > 0 : now_.resting(); }
  /// To be called for each call that is no probe, in the order of calls.
  void count() {
    ++calls_;
    if (!now_.complete()) {
      now_.count_rest();
    } else if (until_review_ != UINT64_MAX && until_review_ > 0) {
      --until_review_;
    }
  }
  /// A probe has taken so long, and this rank has sent so many bytes.
  void record(double seconds, std::uint64_t sent) {
    if (!now_.complete() && !now_.round_over()) now_.record(seconds, sent);
  }

  /// Whether what was decided is looked at again, or shall be.
  [[nodiscard]] bool needs_review() const {
    return before_ != nullptr || (now_.complete() && until_review_ == 0);
  }
  /// The winner and MPI compete once more where it is time for that.
  void review();

  /// Whether all ranks know the slowest rank's times of a round that is over; called until it is so, by the
  /// operation whose turn it is, whose tag that is, with no lock held, as MPI is called. Throws CallError.
  [[nodiscard]] bool agree(const MessageSpace& space, int tag, int rank);
  /// The round is over and agreed on.
  void end_round(std::size_t bytes, Offer offer);

 private:
  [[nodiscard]] Autotuning compete(std::vector<Choice> choices) const;
  [[nodiscard]] Autotuning trial(Choice plan, std::vector<double> mpi) const;
  void begin_trial(Choice plan, std::vector<double> mpi = {});
  void begin_from(const SizeResult& earlier, Offer offer);
  void trust_model(std::size_t bytes, Offer offer);
  void end_trial();
  void wait_for_review();

  Terms& terms_;
  ProbeKey key_;
  Autotuning now_;
  SmallReduce times_;  // slowest times and sums of bytes
  bool agreeing_ = false;
  std::unique_ptr<Autotuning> before_;       // what was decided, while that is being looked at again
  std::uint64_t until_review_ = UINT64_MAX;  // calls, once it is decided
  unsigned reviews_ = 0;
  std::uint64_t calls_ = 0;              // that were no probes
  const SizeResult* earlier_ = nullptr;  // as long as nothing else is known
  std::vector<Choice> otherwise_;  // what competes when a trial's plan does not hold; empty: it is no trial
  bool tried_ = false;             // there was a trial, or there shall be none
  bool held_ = false;              // a trial has ended, and it does hold
};

}  // namespace tapa
