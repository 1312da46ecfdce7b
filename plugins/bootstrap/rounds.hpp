/// How ranks find out what all of them have come to. The program's functions are called by all ranks in one
/// order, but each channel of a context has an order of its own: ranks may start exchanges of different
/// channels in different orders. So whoever has something to do tells, in a round of all ranks, the next step
/// of each of its channels, and what all have told is done next. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dit {

/// What ranks can do together.
enum class StepKind : std::uint32_t { exchange, gather, part };

/// The next step of a channel, as a rank tells it.
struct NextStep {
  std::uint64_t number = 0;  ///< in its channel
  std::uint64_t bytes = 0;   ///< of a gather: what each rank gives
  std::int32_t channel = 0;
  StepKind kind = StepKind::exchange;
};

/// A step that all ranks have come to.
struct ReadyStep {
  int channel = 0;
  bool first = false;   ///< it is the first that each of them tells
  std::string problem;  ///< why it cannot be done, alike on all ranks; "" when it can
};

/// `steps_of`: what each rank tells, oldest step first. In order of channels, alike on all ranks.
[[nodiscard]] std::vector<ReadyStep> ready_steps(std::span<const std::vector<NextStep>> steps_of);

/// Whether ranks agree on the blocks of an exchange. `bytes`: of each rank 2 * size numbers, what it sends to
/// each rank, and what it expects from each. The words for all ranks when they do not, else "".
[[nodiscard]] std::string disagreement(std::span<const std::uint64_t> bytes, std::size_t size);

}  // namespace dit
