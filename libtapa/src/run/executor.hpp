/// @file
/// Carries out one rank's plan over a transport. The same object runs blocking, nonblocking and persistent
/// calls: prepare once, then bind + start + progress as often as wanted, without allocating but in the first
/// bind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "transport/transport.hpp"

namespace tapa {

/// What an unfinished execution waits for, for the watchdog.
struct Waiting {
  bool is_send = false;
  int peer = -1;
  int channel = 0;
  int phase = 0;
  std::size_t bytes = 0;
};

/// Runs a RankPlan. Not thread-safe. The plan and the transport are shared and must outlive it.
class Executor {
 public:
  /// Prepares: successor lists, places of staging for messages of several segments and of scratch. All
  /// allocation happens here, in the transport's reserve() and, of that memory, in the first bind().
  Executor(std::shared_ptr<const RankPlan> plan, std::unique_ptr<Transport> transport);

  /// Sets the caller's memory: send[d] is the start of the block for rank d, recv[s] of the block from rank
  /// s. Blocks of zero bytes may be null. Must not be called while running. Throws std::bad_alloc.
  void bind(std::span<const std::byte* const> send, std::span<std::byte* const> recv);

  /// Begins a run; messages carry tags first_tag + channel. Posts everything that is ready.
  void start(int first_tag);

  /// The same for a rank that cannot take part, without bind(): empty messages go in the place of its own,
  /// and what comes is dropped. Whoever gets an empty message goes on so, too: nobody waits.
  void start_blind(int first_tag);

  /// Advances; returns done(). With `block`, waits for at least one completion. Throws TransportError at the
  /// end of a run in which an empty message came.
  bool progress(bool block);

  [[nodiscard]] bool done() const { return remaining_ == 0; }

  /// Runs to the end.
  void wait() {
    while (!progress(true)) {
    }
  }

  /// Steps posted and not complete, at most `limit`.
  [[nodiscard]] std::vector<Waiting> waiting(std::size_t limit) const;

  [[nodiscard]] const RankPlan& plan() const { return *plan_; }

  /// What it allocated for scratch, staging and its own lists.
  [[nodiscard]] std::size_t memory_bytes() const { return memory_bytes_; }

 private:
  struct Resolved {       // a message's memory after bind()
    Pieces pieces;        // where it lies, in pieces_
    bool staged = false;  // whether that is staging, to be gathered into or scattered from
  };

  void prepare();
  void begin(int first_tag);
  [[nodiscard]] bool has_failed() const { return blind_ || spoiled_by_ >= 0; }
  void resolve(std::size_t step);
  [[nodiscard]] std::byte* address(const Segment& segment) const;
  void run_ready();
  void post(std::uint32_t step);
  void complete(std::uint32_t step);
  void copy_step(const Step& step);
  void gather(const Step& step, std::byte* to);
  void scatter(const Step& step, const std::byte* from);

  std::shared_ptr<const RankPlan> plan_;
  std::unique_ptr<Transport> transport_;
  std::vector<std::uint32_t> successors_;  // CSR of the reversed dependencies
  std::vector<std::uint32_t> successors_at_;
  std::vector<std::uint32_t> waits_for_;  // dependencies of each step
  std::vector<std::uint32_t> open_;       // dependencies not yet complete in this run
  std::vector<std::uint32_t> ready_;      // steps to post, in plan order
  std::vector<std::uint8_t> in_flight_;
  std::vector<Resolved> resolved_;
  std::vector<std::size_t> staging_at_;  // offset of each message's staging, where it may need some
  std::vector<std::size_t> pieces_at_;   // each message's first entry in pieces_
  std::vector<Piece> pieces_;
  std::unique_ptr<std::byte[]> memory_;  // scratch, then staging; taken by bind()
  std::size_t own_memory_ = 0;           // of that
  std::size_t memory_bytes_ = 0;
  std::vector<const std::byte*> send_;
  std::vector<std::byte*> recv_;
  std::vector<int> completed_;
  std::size_t remaining_ = 0;
  int first_tag_ = 0;
  bool blind_ = false;    // this run sends and receives nothing
  int spoiled_by_ = -1;   // who sent an empty message in this run
  bool has_data_ = true;  // the transport's
};

}  // namespace tapa
