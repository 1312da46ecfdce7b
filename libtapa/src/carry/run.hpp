/// @file
/// The run of an operation: through memory that the ranks share, or by the messages of a plan.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "carry/call_numbers.hpp"
#include "carry/choosing.hpp"
#include "carry/staging.hpp"
#include "run/memory_run.hpp"

namespace tapa {

class Run {
 public:
  /// By `entry`; `own`: memory of this operation's own, or null. What options decide is taken now.
  void choose(const Call& call, std::shared_ptr<PlanEntry> entry, ShmBuffers* own);
  [[nodiscard]] const PlanEntry* entry() const { return entry_.get(); }
  /// Whether MPI is to carry the call out instead.
  [[nodiscard]] bool is_mpis() const { return buffers_ == nullptr && entry_->plan == nullptr; }
  [[nodiscard]] bool by_memory() const { return buffers_ != nullptr; }

  /// Takes the memory; false: the run before is under way, and this one must stay first in the order.
  [[nodiscard]] bool claim() { return buffers_ == nullptr || buffers_->claim(); }
  void unclaim() {
    if (buffers_ != nullptr) buffers_->release();
  }

  /// Begins a run that has its claim. Throws CallError.
  void begin(const Call& call);
  /// Goes on, with `block` waiting for a message; true when it has ended. Throws CallError, TransportError.
  [[nodiscard]] bool advance(const Call& call, bool block);
  /// After its end, where memory has carried it: whether the two ends of all blocks are known to agree.
  [[nodiscard]] bool sizes_agree() const { return !by_memory() || memory_.exchange().sizes_agree(); }
  /// Likewise: whether some rank had no memory for its blocks, and MPI is to carry the call out.
  [[nodiscard]] bool is_given_up(const Call& call) const;
  /// Bytes that all ranks have sent together, where memory has carried it.
  [[nodiscard]] std::optional<std::uint64_t> bytes_through_memory() const;

  /// After its end: whether all checksums are there; throws CallError where one is wrong.
  [[nodiscard]] bool check_sums(const Call& call);
  /// Puts what has arrived where it belongs.
  void finish(const Exchange& exchange);

  /// Whether messages are under way.
  [[nodiscard]] bool in_flight() const { return sums_.pending() || (executor_ && !executor_->done()); }
  /// It has failed: given up, not freed, as messages may be in flight.
  void give_up();
  /// The operation ends: gives back what others can use.
  void end(CommState& state, std::size_t keep);

  /// Ranks whose checksums are missing, some of them.
  [[nodiscard]] std::vector<int> missing_sums() const { return sums_.missing(); }
  /// What it waits for.
  [[nodiscard]] std::string waits_for(const Call& call) const;

 private:
  void begin_memory(const Call& call);
  void begin_plan(const Call& call);

  std::shared_ptr<PlanEntry> entry_;
  ShmBuffers* buffers_ = nullptr;  // when the choice is memory
  MemoryRun memory_;
  std::unique_ptr<Executor> executor_;
  Staging staging_;
  bool staged_ = false;  // whether that says where blocks arrive
  CallNumbers sums_;
  std::exception_ptr failure_;  // with it this rank takes part by empty messages only
};

}  // namespace tapa
