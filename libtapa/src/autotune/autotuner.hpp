/// @file
/// The plans that compete on one communicator: the first blocking calls of each class of sizes probe them.
#pragma once

#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "autotune/competition.hpp"

namespace tapa {

/// Bytes of a block, rounded down to a power of two: sizes that are tuned together.
[[nodiscard]] constexpr std::size_t size_class_of(std::size_t bytes) {
  return std::bit_floor(bytes);
}

/// Not thread-safe. Keeps a reference to the source.
class Autotuner {
 public:
  Autotuner(const CandidateSource& source, int ranks) : terms_{source, ranks} {}

  [[nodiscard]] static ProbeKey key_of(bool uniform, std::size_t bytes, Offer offer);

  /// Whether a size is still to be decided. `mean_known`: whether the mean of different blocks is known.
  [[nodiscard]] bool undecided(const ProbeKey& key, std::size_t bytes, bool mean_known) const;
  /// The competition of an undecided key, made when there is none.
  [[nodiscard]] Competition& running(const ProbeKey& key, std::size_t bytes, Offer offer);
  /// That of a decided key, or null.
  [[nodiscard]] Competition* decided_by(const ProbeKey& key) const;
  /// A probe has ended. Once for each, also when it failed: all ranks stay in step.
  void record(const ProbeKey& key, double seconds, std::uint64_t sent);

  /// A plan that was probed, or null.
  struct Fastest {
    const Choice* choice = nullptr;
    const Autotuning* in = nullptr;  // where it was
    std::size_t at = 0;
    [[nodiscard]] double median() const { return in->times().median(at); }  // seconds
  };
  /// The fastest plan that suits the offer, once the size is decided. `not_mpi`: MPI is passed over.
  [[nodiscard]] Fastest fastest(bool uniform, std::size_t bytes, Offer offer, bool not_mpi) const;
  /// The same with what is said about it, which takes longer than a short exchange.
  [[nodiscard]] std::optional<Decision> decided(bool uniform, std::size_t bytes, Offer offer,
                                                bool not_mpi) const;
  /// Whether blocks of that size, all alike, are known to travel faster by some plan than by MPI.
  [[nodiscard]] bool beats_mpi(std::size_t bytes, Offer offer) const;
  /// Whether blocking calls with such blocks are MPI's, as was found out here or by an earlier communicator.
  [[nodiscard]] bool mpi_has_won(std::size_t bytes) const;

  /// What earlier runs have found for these ranks, to begin with. Alike on all ranks, before the first call.
  void remember(std::vector<SizeResult> sizes) { earlier_ = std::move(sizes); }
  /// What another run could use. `aging`: what was measured before that day and still holds is told as new.
  [[nodiscard]] std::vector<SizeResult> results(int aging) const;
  [[nodiscard]] const Terms::Used& used() const { return terms_.used; }

  /// Limits what probing may cost. `spent`: seconds of all-to-alls so far. Alike on all ranks, before calls.
  void limit(double spent) { terms_.budget = ProbeBudget(spent); }
  [[nodiscard]] bool limited() const { return terms_.budget.limited(); }

  /// Forgets everything, also what is being agreed.
  void reset();

 private:
  [[nodiscard]] Competition* find(const ProbeKey& key) const;
  [[nodiscard]] const Autotuning* ended(bool uniform, std::size_t bytes, bool edges) const;
  [[nodiscard]] const SizeResult* earlier(bool uniform, std::size_t bytes) const;
  [[nodiscard]] std::vector<Tried> tried_near(const ProbeKey& key, Offer offer) const;
  [[nodiscard]] std::vector<Choice> choices_for(const ProbeKey& key, std::size_t bytes, Offer offer) const;

  Terms terms_;  // of the competitions
  std::vector<SizeResult> earlier_;
  std::map<ProbeKey, std::unique_ptr<Competition>> runs_;
};

}  // namespace tapa
