/// @file
/// Which plans are worth probing. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/choose.hpp"

namespace tapa {

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
  /// Whether it carries out the first calls of a size, as MPI is seldom faster: the ranks have a core each.
  [[nodiscard]] virtual bool memory_first() const = 0;
  /// Whether it is a plan that would be considered here. `memory`: the ranks' buffers are at hand.
  [[nodiscard]] virtual bool possible(const Choice& choice, bool memory) const = 0;
};

/// A candidate of another size that is tuned already.
struct Tried {
  Choice choice;
  double predicted = 0;  ///< seconds, by the model
  double measured = 0;   ///< seconds; 0: it was never probed
};

/// Candidates, cheapest first, corrected by probes of a size nearby: times measured / predicted there, of the
/// plan itself or the fastest with its algorithm (then they are `measured`), else the smallest such factor.
[[nodiscard]] std::vector<Candidate> corrected(std::vector<Candidate> ranked, std::span<const Tried> tried);

/// The plans that deserve to be probed: the best of each algorithm, at most `most`, and none that is expected
/// to take over kHopeless times as long as the first, kSlower times where that is measured.
[[nodiscard]] std::vector<Choice> plausible(const std::vector<Candidate>& ranked, std::size_t most);
inline constexpr double kHopeless = 3;
inline constexpr double kSlower = 1.5;

}  // namespace tapa
