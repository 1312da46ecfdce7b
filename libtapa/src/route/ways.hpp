/// @file
/// What competitions say of a call of one size, and what follows from it. Alike on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "comm/comm_state.hpp"

namespace tapa {

/// How far a blocking call's size is decided.
struct Way {
  enum class Kind : std::uint8_t {
    settled,  ///< what decide() says
    resting,  ///< not yet: the call is no probe, and goes by the fastest so far
    probe,    ///< the call tries a plan
    agree,    ///< a round is over: the ranks must agree on its times first
  };
  Kind kind = Kind::settled;
  ProbeKey key{};
  Competition* running = nullptr;  ///< the competition; settled: the one that has decided, or null

  /// The plan of a call that rests or tries.
  [[nodiscard]] const Choice& next() const { return running->now().next(); }
  /// What has decided it, or null.
  [[nodiscard]] Competition* decided() const { return kind == Kind::settled ? running : nullptr; }
};

/// `bytes`: of all blocks, or of a mean one. Begins a competition where there is none.
[[nodiscard]] Way way_of(CommParts& parts, bool uniform, std::size_t bytes, Offer offer);

/// The choice for blocks that all, or on average, have `bytes`. Throws CallError for TAPA_CHECK=mpi,plan.
[[nodiscard]] Decision decide(CommParts& parts, bool uniform, std::size_t bytes, Offer offer);

/// The plan for blocks that all have `bytes` bytes.
[[nodiscard]] std::shared_ptr<PlanEntry> uniform_plan(CommParts& parts, std::size_t bytes, Offer offer);

/// Whether calls along edges go through memory, for all sizes. `memory`: there is such for them.
[[nodiscard]] bool edges_go_through_memory(const CommParts& parts, bool memory);

/// Whether calls that are no probes are MPI's: no plan is known to be faster. No `bytes`: blocks differ.
[[nodiscard]] bool leaves_unproven(const CommParts& parts, std::optional<std::size_t> bytes, Offer offer);

}  // namespace tapa
