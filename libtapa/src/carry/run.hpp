/// @file
/// The run of an operation: through memory that the ranks share, or by the messages of a plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "carry/call_numbers.hpp"
#include "carry/choosing.hpp"
#include "carry/staging.hpp"
#include "comm/machine_view.hpp"
#include "run/error.hpp"
#include "run/memory_run.hpp"
#include "run/unfinished.hpp"
#include "transport/node_transport.hpp"

namespace tapa {

class Run {
 public:
  /// By `entry`; `own`: memory of this operation's own, or null. What options decide is taken now.
  void choose(const Call& c, std::shared_ptr<PlanEntry> entry, ShmBuffers* own) {
    entry_ = std::move(entry);
    buffers_ = nullptr;
    if (entry_->choice.algorithm == Algorithm::memory)
      buffers_ = own != nullptr ? own : &c.state->parts()->regions.common();
    if (c.mode == Mode::persistent && entry_->plan) executor_ = take_executor(c, *entry_);
  }
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
  // A rank without memory for its blocks, or with types that MPI refuses to pack, is waited for all the same.
  void begin(const Call& c) {
    staged_ = false;
    failure_ = nullptr;
    by_memory() ? begin_memory(c) : begin_plan(c);
  }
  /// Goes on, with `block` waiting for a message; true when it has ended. Throws CallError, TransportError.
  [[nodiscard]] bool advance(const Call& c, bool block) {
    if (executor_) {
      const bool ended = executor_->progress(block);
      if (ended && failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
      return ended;
    }
    constexpr int most_pauses = 50;  // pauses in one call
    try {
      const auto done = [this] { return memory_.advance(); };
      bool ended = done();
      Waiter waiter = c.state->waiter();
      for (int idle = 0; block && !ended && idle < most_pauses; ++idle) {
        waiter.pause(idle, true, done);
        waiter.count_quiet_poll();
        ended = done();
      }
      if (ended) buffers_->release();
      return ended;
    } catch (...) {
      buffers_->release();
      // Where sizes differ all ranks say which block it is.
      if ((c.rules->compares() && !memory_.exchange().sizes_agree()) || is_given_up(c)) return true;
      throw;
    }
  }
  /// After its end, where memory has carried it: whether the two ends of all blocks are known to agree.
  [[nodiscard]] bool sizes_agree() const { return !by_memory() || memory_.exchange().sizes_agree(); }
  /// Likewise: whether some rank had no memory for its blocks, and MPI is to carry the call out.
  [[nodiscard]] bool is_given_up(const Call& c) const {
    return by_memory() && memory_.exchange().can_be_repeated() && c.offer().mpi &&
           c.rules->check != Check::data;
  }
  /// Bytes that all ranks have sent together, where memory has carried it.
  [[nodiscard]] std::optional<std::uint64_t> bytes_through_memory() const {
    if (!by_memory()) return std::nullopt;
    return memory_.exchange().total_bytes();
  }

  /// After its end: whether all checksums are there; throws CallError where one is wrong.
  [[nodiscard]] bool check_sums(const Call& c) {
    if (!sums_.test()) return false;
    sums_.check_sums(c, staging_.recv());
    return true;
  }
  /// Puts what has arrived where it belongs.
  void finish(const Exchange& exchange) {
    if (staged_) staging_.unpack(exchange);
  }

  /// Whether messages are under way.
  [[nodiscard]] bool in_flight() const { return sums_.pending() || (executor_ && !executor_->done()); }
  /// It has failed: given up, not freed, as messages may be in flight.
  void give_up() {
    if (executor_ && !executor_->done()) static_cast<void>(executor_.release());
    sums_.give_up();
  }
  /// The operation ends: gives back what others can use.
  void end(CommState& state, std::size_t keep) {
    if (executor_) state.parts()->chooser.cache().keep(*entry_, std::move(executor_));
    executor_.reset();
    buffers_ = nullptr;
    staging_.trim(keep);
    entry_.reset();
  }

  /// Ranks whose checksums are missing, some of them.
  [[nodiscard]] std::vector<int> missing_sums() const { return sums_.missing(); }
  /// What it waits for.
  [[nodiscard]] std::string waits_for(const Call& c) const {
    if (by_memory()) return tapa::waits_for(memory_.exchange());
    if (!executor_) return "waits for MPI";
    std::string text = "waits for";
    const Topology& topology = *c.rules->topology;
    for (const Waiting& w : executor_->waiting(8)) {
      const auto level = static_cast<std::size_t>(topology.level_of(c.state->rank, w.peer));
      const auto phase = static_cast<std::size_t>(w.phase);
      text += (text.back() == 'r' ? " rank " : "; rank ") + std::to_string(w.peer) +
              (w.is_send ? " to take " : " to send ") + std::to_string(w.bytes) + " bytes, level " +
              topology.levels[level].name;
      if (phase < entry_->phases.size()) text += ", phase \"" + entry_->phases[phase].name + "\"";
    }
    return text;
  }

 private:
  /// Longest message inside a node that goes through our own shared memory. What passes blocks on has
  /// messages of many pieces. MPI would need them in one: a copy more at both ends.
  static std::size_t shm_limit(const Rules& rules, const Choice& choice) {
    constexpr std::size_t in_pieces = 32;
    const std::size_t limit = rules.shm_limit;
    const Algorithm a = choice.algorithm;
    const bool passes_on = a == Algorithm::tapa || a == Algorithm::leaders || a == Algorithm::bruck;
    return passes_on && limit <= std::numeric_limits<std::size_t>::max() / in_pieces ? in_pieces * limit
                                                                                     : limit;
  }

  /// Longest message between nodes that travels whole. Over TCP a rendezvous stands in line behind other
  /// data.
  static std::size_t piece(const Rules& rules, const Membership& membership) {
    constexpr std::size_t over_tcp_piece = 32768;
    const std::size_t wanted = rules.piece;
    if (wanted > 0) return wanted;
    return over_tcp(*rules.topology) && !is_striped(membership, *rules.topology) ? over_tcp_piece
                                                                                 : MpiTransport::kIntMax;
  }

  /// One that nobody uses; it goes back when its run has ended well.
  static std::unique_ptr<Executor> take_executor(const Call& c, PlanEntry& entry) {
    if (auto executor = c.state->parts()->chooser.cache().take(entry)) return executor;
    const Membership& membership = c.state->membership;
    return std::make_unique<Executor>(
        entry.plan, std::make_unique<NodeTransport>(c.state->space, membership.world->shm.get(),
                                                    shm_limit(*c.rules, entry.choice),
                                                    piece(*c.rules, membership), c.rules->waiting));
  }

  /// The first blocks of both sides when all are equal, dense, in a row and not staged: no table is needed.
  struct EqualBlocks {
    const std::byte* send;
    std::byte* recv;
  };
  static std::optional<EqualBlocks> equal_blocks(const Call& c, const ShmBuffers& buffers) {
    const Exchange& e = c.exchange;
    if (!e.uniform || c.rules->check == Check::data) return std::nullopt;
    const std::byte* const send = in_row(e.send, e.uniform_bytes);
    std::byte* const recv = in_row(e.recv, e.uniform_bytes);
    if (send == nullptr || recv == nullptr) return std::nullopt;
    const bool fits = send == recv && ShmExchange::fits(buffers, e.uniform_bytes);
    if (e.overlaps && !fits) return std::nullopt;
    return EqualBlocks{send, recv};
  }

  /// Blocks that come along edges must fit in those that are received, as sizes there are taken from senders.
  static void require_room(const RankPlan& plan, const std::vector<Block>& recv) {
    for (const Step& step : plan.steps) {
      for (const Segment& to : plan.to(step)) {
        if (to.buffer != Buffer::recv) continue;
        const std::size_t room = recv[static_cast<std::size_t>(to.block)].bytes;
        if (to.offset + to.bytes <= room) continue;
        refuse(MPI_ERR_TRUNCATE, "rank ", to.block, " sends ", to.offset + to.bytes,
               " bytes or more, expected ", room);
      }
    }
  }

  void begin_memory(const Call& c) {
    const Exchange& exchange = c.exchange;
    if (const auto equal = equal_blocks(c, *buffers_))
      return memory_.begin_row(*buffers_, equal->send, equal->recv, exchange.uniform_bytes);
    ShmBlocks& blocks = memory_.describe(exchange);
    const bool sums = c.rules->check == Check::data;
    const bool overlaps = exchange.overlaps && ShmExchange::fits(*buffers_, blocks.send);
    if (sums || overlaps != exchange.overlaps) {
      staged_ = blocks.prepare([&] {
        staging_.pack(exchange);
        for (std::size_t i = 0; i < blocks.send.size(); ++i) {
          blocks.send[i].data = const_cast<std::byte*>(staging_.send()[i]);  // only read
          blocks.recv[i].data = staging_.recv()[i];
        }
      });
      if (staged_ && sums) sums_.start_sums(c, staging_.send());
    }
    const bool overwrites =
        exchange.overlaps && (overlaps || std::ranges::any_of(exchange.recv, &Block::dense));
    memory_.begin_described(*buffers_, overlaps && !sums, overwrites,
                            !c.rules->compares() ? MemoryRun::Compare::nothing
                            : exchange.uniform   ? MemoryRun::Compare::sums
                                                 : MemoryRun::Compare::blocks,
                            !exchange.uniform);
  }

  void begin_plan(const Call& c) {
    const int most = c.tags.count - window_tags::kPlan;
    if (entry_->plan->channels > most)
      refuse(MPI_ERR_INTERN, "plan ", entry_->text, " needs ", entry_->plan->channels,
             " tags, expected at most ", most);
    if (!executor_) executor_ = take_executor(c, *entry_);
    const int first_tag = c.tags.first + window_tags::kPlan;
    const bool sums = c.rules->check == Check::data;
    try {
      if (c.edges != nullptr) require_room(*entry_->plan, c.exchange.recv);
      staging_.pack(c.exchange);
      staged_ = true;
      executor_->bind(staging_.send(), staging_.recv());
    } catch (const std::exception&) {
      failure_ = std::current_exception();
      if (sums) sums_.start_sums(c, {});
      return executor_->start_blind(first_tag);
    }
    if (sums) sums_.start_sums(c, staging_.send());
    executor_->start(first_tag);
  }

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
