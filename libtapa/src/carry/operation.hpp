/// @file
/// One all-to-all as a state machine: run to the end, advanced now and then, or prepared and started often.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "carry/call_numbers.hpp"
#include "carry/choosing.hpp"
#include "carry/mpi_sample.hpp"
#include "carry/persistent_window.hpp"
#include "carry/run.hpp"
#include "carry/staging.hpp"
#include "comm/call_notes.hpp"
#include "memory/reserve.hpp"
#include "route/route.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/unfinished.hpp"

namespace tapa {

/// Life: begin, describe call().exchange (or take_arguments), advance until finished(); persistent: start and
/// advance again. Reused, so that nothing is allocated. Several threads may advance() it.
class Operation {
 public:
  ~Operation() { end(); }

  /// Makes it the communicator's next, in the same order on all ranks. `comm`: the program's, if it blocks.
  void begin(std::shared_ptr<CommState> state, Mode mode, const char* function,
             MPI_Comm comm = MPI_COMM_NULL) {
    memory::keep_reserve();
    auto rules = state->parts()->rules;
    call_ = {std::move(state), std::move(rules), function, comm, mode, std::move(call_.exchange)};
    stage_ = Stage::turn;
    outcome = {};
    mpi_seconds_.reset();
    window_.begin();
    judging_ = false;
    choosing_ = {};
    started_ = PMPI_Wtime();
    watch_ = {call_.function, call_.rules->timeout, started_};
    call_.state->parts()->order.enqueue(this);
    queued_ = true;
  }

  /// Takes checked arguments. Datatypes are held where they are needed after the call; arrays only MPI reads
  /// after it. `judges`, blocking: only finds the block whose ends are known to differ, and fails with it.
  void take_arguments(const Arguments& arguments, bool judges = false) {
    call_.has_arguments = true;
    judging_ = judges;
    call_.large = arguments.large;
    call_.edges = arguments.neighbours ? arguments.edges : nullptr;
    call_.edge_bytes = edge_bytes(arguments);
    normalise(arguments, call_.state->size, call_.exchange);
    if (call_.mode == Mode::blocking) return;
    types_.hold(call_.exchange.recv);
    if (call_.exchange.in_place) {
      call_.exchange.send = call_.exchange.recv;
    } else {
      types_.hold(call_.exchange.send);
      types_.hold(call_.exchange.send_parts);
      types_.hold(call_.exchange.recv_parts);
    }
  }
  /// The call, whose blocks others describe themselves instead, and how its plan is chosen.
  [[nodiscard]] Call& call() { return call_; }
  [[nodiscard]] Choosing& choosing() { return choosing_; }

  /// Advances as far as possible, persistent ones until they are prepared; with `block` it may wait for a
  /// message. Whether it has come to rest. Never throws: see outcome().
  bool advance(bool block) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    try {
      while (!at_rest() && step(block)) {
      }
      if (!at_rest()) watch_.look([this] { return waits_for(); });
    } catch (const CallError& e) {
      outcome.seen = e.seen();
      fail(e.code(), e.what());
    } catch (const std::exception&) {
      const Failure failure = current_failure();
      fail(failure.code, failure.words);
    }
    return at_rest();
  }
  /// Persistent: begins a run. Precondition: it is prepared, and no run is unfinished.
  void start() {
    stage_ = Stage::launch;
    outcome = {};
    started_ = PMPI_Wtime();
    watch_ = {call_.function, call_.rules->timeout, started_};
  }

  [[nodiscard]] bool at_rest() const {
    return stage_ == Stage::finished || stage_ == Stage::idle || stage_ == Stage::mpi ||
           (stage_ == Stage::ready && call_.mode == Mode::persistent);
  }
  [[nodiscard]] bool finished() const { return stage_ == Stage::finished; }
  /// Whether MPI is to carry it out, when nothing of ours is alive; with what is to be told of that.
  [[nodiscard]] bool is_mpis(Route& route) const {
    if (stage_ != Stage::mpi) return false;
    route.carrier = Carrier::mpi;
    route.state = call_.state.get();
    route.chosen = route.noted = true;
    if (run_.by_memory()) route.reason = reasons::memory;
    route.tried = choosing_.tried();
    route.sent = total_bytes(call_.exchange.send);
    route.uniform = call_.exchange.uniform;
    route.bytes = choosing_.bytes_per_pair(call_.exchange);
    return true;
  }

  /// What became of it.
  struct Outcome {
    int code = MPI_SUCCESS;
    std::string message;  ///< what went wrong
    CallError::Seen seen = CallError::Seen::here;
    bool out_of_tags = false;  ///< too many persistent operations live; alike on all ranks
  };
  Outcome outcome;

  /// Forgets everything but memory, so that the object can serve another call. Precondition: it is at rest.
  void end() {
    if (!call_.state) return;
    leave_queue();
    run_.end(*call_.state, call_.rules->keep);
    call_.state->parts()->order.give_back(std::exchange(call_.tags, {}));
    window_.leave(*call_.state);
    types_.free();
    choosing_ = {};
    call_.rules.reset();
    call_.state.reset();
    stage_ = Stage::idle;
  }

 private:
  /// For the explanation and the report.
  void tell(double seconds) {
    CommState& state = *call_.state;
    PlanEntry& entry = *choosing_.entry();
    const std::vector<Block>& recv = call_.exchange.recv;
    if (call_.rules->explain && state.rank == 0 && !entry.explained.exchange(true))
      print_line(explanation(entry, call_.function, state.size, seconds));
    if (call_.rules->report == Reporting::off) return;
    std::optional<Sample> sample;
    if (mpi_seconds_) sample = Sample{seconds, *mpi_seconds_};
    const std::uint64_t sent = total_bytes(call_.exchange.send);
    const std::size_t agreed = choosing_.bytes_per_pair(call_.exchange);  // 0: the ranks had no reason to
    const std::size_t bytes = agreed != 0 ? agreed : sent / static_cast<std::size_t>(state.size);
    const auto parts = state.parts();
    if (!call_.exchange.uniform) note_traffic(call_.exchange.send, parts->traffic);
    if (call_.mode == Mode::blocking) {
      parts->report.next_blocking();
      const auto is_heard = [&](const Block& block) {
        return block.bytes > 0 || &block == &recv[static_cast<std::size_t>(state.rank)];
      };
      if (std::ranges::all_of(recv, is_heard)) note_time(state, *parts, sent + total_bytes(recv), seconds);
    }
    parts->report.count(call_.function, bytes, entry.text, {}, sent, seconds, sample);
  }

  enum class Stage : std::uint8_t {
    idle,
    turn,
    window,    // persistent: which tags and memory are free everywhere
    arrivals,  // whether everybody makes the call, so that the watchdog can name who does not
    check,     // with which counts,
    verdict,   // and what everybody makes of these
    plan,
    counts,
    ready,
    launch,
    running,
    sums,
    mpi,  // at rest: it is for MPI to carry out
    finished
  };

  [[nodiscard]] bool step(bool block) {
    switch (stage_) {
      case Stage::turn:
        return step_turn();
      case Stage::window:
        if (!window_.step(*call_.state, call_.tags)) return false;
        call_.own_memory = window_.buffers() != nullptr;
        after_turn();
        return true;
      case Stage::arrivals:
        if (!numbers_.test()) return false;
        after_arrivals();
        return true;
      case Stage::check:
        if (!numbers_.test()) return false;
        numbers_.start_verdict(call_);
        stage_ = Stage::verdict;
        return true;
      case Stage::verdict:
        if (!numbers_.test()) return false;
        numbers_.judge(*call_.state);
        if (judging_)
          throw CallError(MPI_ERR_TRUNCATE, "the two ends of a block differ", CallError::Seen::everywhere);
        stage_ = Stage::plan;
        return true;
      case Stage::counts: {
        if (!numbers_.test()) return false;
        const std::vector<std::size_t> numbers = numbers_.numbers();
        choosing_.take_counts(call_, numbers_.counts(*call_.state, numbers), numbers);
        take_plan();
        return true;
      }
      case Stage::plan:
        return step_plan();
      case Stage::ready:
      case Stage::launch:
        return launch();
      case Stage::running:
        return step_running(block);
      case Stage::sums:
        if (!run_.check_sums(call_)) return false;
        finish();
        return true;
      default:
        return false;
    }
  }

  bool step_turn() {
    {
      const auto parts = call_.state->parts();
      if (parts->order.first() != this) return false;
      if (call_.mode != Mode::persistent) {
        const auto tags = parts->order.take_window();
        if (!tags) return false;  // an earlier operation of the same tags is under way
        call_.tags = *tags;
      }
    }
    if (call_.mode == Mode::persistent)
      stage_ = Stage::window;
    else
      after_turn();
    return true;
  }

  bool step_plan() {
    if (call_.exchange.uniform && call_.exchange.uniform_bytes == 0) {
      finish();
      return true;
    }
    switch (choosing_.step(call_, call_.tags.first + window_tags::kAgree)) {
      case Choosing::Step::wait:
        return false;
      case Choosing::Step::counts:
        numbers_.start_counts(call_, choosing_.choice(), choosing_.wants_blocks());
        stage_ = Stage::counts;
        return true;
      default:
        break;
    }
    if (choosing_.tried()) started_ = PMPI_Wtime();  // agreeing is no part of what is probed
    take_plan();
    return true;
  }

  bool step_running(bool block) {
    if (!run_.advance(call_, block)) return false;
    if (call_.rules->compares() && !run_.sizes_agree()) {
      judging_ = true;
      after_arrivals();
    } else if (run_.is_given_up(call_)) {
      choosing_.end(call_, PMPI_Wtime() - started_, run_.bytes_through_memory());
      stage_ = Stage::mpi;
    } else if (call_.rules->check == Check::data) {
      stage_ = Stage::sums;
    } else {
      finish();
    }
    return true;
  }

  void after_turn() {
    if (!judging_ && choosing_.goes_through_memory(call_)) {
      stage_ = Stage::plan;  // who comes, and with which counts, is seen there
    } else if (call_.rules->timeout > 0) {
      numbers_.start_arrivals(call_);
      stage_ = Stage::arrivals;
    } else {
      after_arrivals();
    }
  }

  void after_arrivals() {
    stage_ = Stage::plan;
    if (!call_.rules->compares() && !judging_) return;
    numbers_.start_check(call_);
    stage_ = Stage::check;
  }

  void take_plan() {
    run_.choose(call_, choosing_.entry(), window_.buffers());
    stage_ = Stage::ready;
    if (call_.mode == Mode::persistent) leave_queue();
  }

  /// False: not yet.
  bool launch() {
    if (run_.is_mpis()) {
      stage_ = Stage::mpi;
    } else {
      if (!run_.claim()) return false;
      try {
        if (call_.comm != MPI_COMM_NULL && call_.rules->report == Reporting::on &&
            call_.state->parts()->report.sample_due(call_.function, choosing_.bytes_per_pair(call_.exchange),
                                                    run_.entry()->text)) {
          mpi_seconds_ = sample_mpi(call_.exchange, call_.comm);
          if (mpi_seconds_) started_ = PMPI_Wtime();
        }
        run_.begin(call_);
      } catch (...) {
        run_.unclaim();
        throw;
      }
      stage_ = Stage::running;
    }
    leave_queue();
    return true;
  }

  void finish() {
    if (run_.entry() != nullptr) run_.finish(call_.exchange);
    leave_queue();
    stage_ = Stage::finished;
    if (run_.entry() == nullptr) return;
    const double seconds = PMPI_Wtime() - started_;
    choosing_.end(call_, seconds, run_.bytes_through_memory());
    tell(seconds);
  }

  void fail(int code, const char* words) {
    outcome.code = code;
    keep_words(outcome.message, words);
    outcome.out_of_tags = window_.out_of_tags();
    leave_queue();
    if (numbers_.pending() || run_.in_flight()) call_.tags = {};  // they may not be used again
    run_.give_up();
    window_.give_up();
    numbers_.give_up();
    choosing_.end(call_, PMPI_Wtime() - started_, run_.bytes_through_memory());
    stage_ = Stage::finished;
  }
  void leave_queue() {
    if (std::exchange(queued_, false)) call_.state->parts()->order.leave(this);
  }

  [[nodiscard]] std::string waits_for() const {
    switch (stage_) {
      case Stage::turn:
        return "waits for an earlier operation on the communicator to begin";
      case Stage::window:
        return "waits for the other ranks to make their persistent requests";
      case Stage::arrivals:
        return "waits for " + ranks_text(numbers_.missing()) + " to make the call";
      case Stage::check:
      case Stage::verdict:
      case Stage::counts:
        return "waits for the counts of " + ranks_text(numbers_.missing());
      case Stage::sums:
        return "waits for the checksums of " + ranks_text(run_.missing_sums());
      case Stage::plan:
        return "waits for the agreed mean size";
      default:
        return run_.waits_for(call_);
    }
  }

  mutable std::mutex mutex_;  // held in advance()
  Call call_;
  Stage stage_ = Stage::idle;
  bool queued_ = false;

  HeldTypes types_;  // made of the caller's, which may be freed
  PersistentWindow window_;
  CallNumbers numbers_;
  bool judging_ = false;  // the ends of some block differ
  Choosing choosing_;
  Run run_;
  std::optional<double> mpi_seconds_;  // what MPI took beside this run, for the report
  double started_ = 0;                 // MPI_Wtime of the call or of the run
  Watch watch_;
};

}  // namespace tapa
