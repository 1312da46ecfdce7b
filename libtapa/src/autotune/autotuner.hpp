/// @file
/// The plans that compete on one communicator. The first blocking calls of each class of sizes
/// probe the candidates, call by call; then the fastest is kept.
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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

/// Bytes of a block, rounded down to a power of two: sizes that are tuned together.
[[nodiscard]] constexpr std::size_t size_class_of(std::size_t bytes) {
  return std::bit_floor(bytes);
}

/// What the candidates are, and whether there is anything to tune. Alike on all ranks.
class CandidateSource {
 public:
  CandidateSource() = default;
  CandidateSource(const CandidateSource&) = delete;
  CandidateSource& operator=(const CandidateSource&) = delete;
  virtual ~CandidateSource() = default;

  /// Cheapest first, as the model and measurements have them.
  [[nodiscard]] virtual std::vector<Candidate> ranked(std::size_t bytes, Offer offer) const = 0;
  /// Whether plans of this size are probed at all.
  [[nodiscard]] virtual bool tunes(std::size_t bytes) const = 0;
  /// Whether the choice is the same for all sizes: the ranks share memory.
  [[nodiscard]] virtual bool one_choice() const = 0;
  /// Blocks of all ranks together: one for each two, or along edges.
  [[nodiscard]] virtual std::uint64_t blocks(bool edges) const = 0;
  /// Whether this choice carries out the first calls of a size, as MPI is seldom faster by more than a tie:
  /// the ranks have a core each.
  [[nodiscard]] virtual bool memory_first() const = 0;
  /// Whether it is a plan that would be considered here. `memory`: the ranks' buffers are at hand.
  [[nodiscard]] virtual bool possible(const Choice& choice, bool memory) const = 0;
};

/// Not thread-safe but for agree(). Keeps a reference to the source.
class Autotuner {
 public:
  Autotuner(const CandidateSource& source, int ranks) : source_(source), ranks_(ranks) {}
  ~Autotuner() { reset(); }
  Autotuner(const Autotuner&) = delete;
  Autotuner& operator=(const Autotuner&) = delete;

  [[nodiscard]] static ProbeKey key_of(bool uniform, std::size_t bytes, Offer offer);

  /// Whether a size is still to be decided. `mean_known`: for blocks of different sizes, whether their mean
  /// is known.
  [[nodiscard]] bool undecided(const ProbeKey& key, std::size_t bytes, bool mean_known) const;

  /// A plan that was probed, or null.
  struct Fastest {
    const Choice* choice = nullptr;
    const Autotuning* in = nullptr;  // where it was
    std::size_t at = 0;
    [[nodiscard]] double median() const { return in->median(at); }  // seconds
  };
  /// The fastest plan that suits the offer, once the size is decided. `not_mpi`: MPI is passed over.
  [[nodiscard]] Fastest fastest(bool uniform, std::size_t bytes, Offer offer, bool not_mpi) const;
  /// The same with what is said about it, which takes longer than a short exchange.
  [[nodiscard]] std::optional<Decision> decided(bool uniform, std::size_t bytes, Offer offer,
                                                bool not_mpi) const;

  /// A competition, and how the ranks agree on its times.
  struct Running {
    explicit Running(Autotuning begun) : autotuning(std::move(begun)) {}

    Autotuning autotuning;
    SmallReduce times;  // slowest times and sums of bytes
    bool agreeing = false;
    std::unique_ptr<Autotuning> before;       // what was decided, while that is being looked at again
    std::uint64_t until_review = UINT64_MAX;  // calls, once it is decided
    unsigned reviews = 0;
    std::uint64_t calls = 0;              // that were no probes
    const SizeResult* results = nullptr;  // what an earlier run has found, as long as nothing else is known
    std::vector<Choice> otherwise;        // what competes when that does not hold; empty: it is no trial
    bool tried = false;                   // there was a trial, or there shall be none
    bool held = false;                    // a trial has ended, and it does hold

    /// Whether the next call takes the same way as the last one, and is no probe.
    [[nodiscard]] bool repeats() const {
      return autotuning.complete() ? until_review > 0 : autotuning.resting();
    }
    /// To be called for each call that is no probe, in the order of calls.
    void count() {
      ++calls;
      if (!autotuning.complete()) {
        autotuning.count_rest();
      } else if (until_review != UINT64_MAX && until_review > 0) {
        --until_review;
      }
    }
  };
  /// The competition of an undecided key, made when there is none.
  [[nodiscard]] Running& running(const ProbeKey& key, std::size_t bytes, Offer offer);
  /// That of a decided key, or null.
  [[nodiscard]] Running* decided_by(const ProbeKey& key);

  /// What earlier runs have found for these ranks, to begin with. Alike on all ranks, before the first call.
  void remember(std::vector<SizeResult> sizes);
  /// What is known now, as far as another run could use it. `aging`: results measured before that day are
  /// told as new when they still hold.
  [[nodiscard]] std::vector<SizeResult> results(int aging) const;
  /// Sizes that began with a result of an earlier run, and those of them where it did not hold.
  struct Used {
    int sizes = 0;
    int refuted = 0;
  };
  [[nodiscard]] const Used& used() const { return used_; }

  /// Limits what probing may cost from now on: the program did not ask for it. `spent`: seconds of
  /// all-to-alls so far. Alike on all ranks, before the first call.
  void limit(double spent) { budget_ = ProbeBudget(spent); }
  [[nodiscard]] bool limited() const { return budget_.limited(); }

  /// Whether blocks of that size, all alike, are known to travel faster by some plan than by MPI.
  [[nodiscard]] bool beats_mpi(std::size_t bytes, Offer offer) const;
  /// Whether blocking calls with such blocks are MPI's, as was found out here or by an earlier communicator.
  [[nodiscard]] bool mpi_has_won(std::size_t bytes) const;

  /// Whether all ranks know the slowest rank's times of a round that is over; to be called until it is so, by
  /// the operation whose turn it is, in the same order of calls on all ranks. Throws CallError.
  /// `tag`: of that operation; `rank`: this one in the communicator. No lock may be held, as MPI is called.
  [[nodiscard]] static bool agree(Running& running, const MessageSpace& space, int tag, int rank);

  /// The round of a competition is over and agreed on; the rest as for running().
  void end_round(const ProbeKey& key, Running& running, std::size_t bytes, Offer offer);

  /// A probe has taken so long, and this rank has sent so many bytes. To be called once for each, also when
  /// it failed, so that all ranks stay in step.
  void record(const ProbeKey& key, double seconds, std::uint64_t sent);

  /// Forgets everything, also what is being agreed.
  void reset();

 private:
  [[nodiscard]] Running* find(const ProbeKey& key) const;
  [[nodiscard]] const Autotuning* ended(const ProbeKey& key) const;
  [[nodiscard]] bool needs_review(const ProbeKey& key) const;
  [[nodiscard]] Autotuning compete(const ProbeKey& key, std::vector<Choice> choices);
  [[nodiscard]] std::unique_ptr<Running> begin(const ProbeKey& key, std::size_t bytes, Offer offer);
  void trust_model(Running& running, const ProbeKey& key, std::size_t bytes, Offer offer);
  [[nodiscard]] Autotuning try_plan(const ProbeKey& key, Choice plan, std::vector<double> mpi);
  void begin_trial(Running& running, const ProbeKey& key, Choice plan, std::vector<double> mpi = {});
  void recall(Running& running, const ProbeKey& key, Offer offer);
  void end_trial(const ProbeKey& key, Running& running);
  void wait_for_review(Running& running);
  void review(const ProbeKey& key, Running& running);
  [[nodiscard]] std::vector<Tried> tried_near(const ProbeKey& key, Offer offer) const;
  [[nodiscard]] std::vector<Choice> choices_for(const ProbeKey& key, std::size_t bytes, Offer offer) const;

  const CandidateSource& source_;
  int ranks_;
  ProbeBudget budget_;  // of the competitions below
  std::map<ProbeKey, std::unique_ptr<Running>> runs_;
  std::vector<SizeResult> earlier_;  // of earlier runs
  Used used_;
};

/// What a competition has found, for the log: the best first.
[[nodiscard]] std::string outcome(const ProbeKey& key, const Autotuning& autotuning);

}  // namespace tapa
