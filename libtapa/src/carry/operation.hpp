/// @file
/// One all-to-all from its arguments to its end, as a state machine: run to the end, advanced now and then,
/// or prepared once and started often.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "carry/call_numbers.hpp"
#include "carry/choosing.hpp"
#include "carry/persistent_window.hpp"
#include "carry/run.hpp"
#include "carry/staging.hpp"
#include "route/route.hpp"
#include "run/error.hpp"
#include "run/unfinished.hpp"

namespace tapa {

/// Life: begin, describe call().exchange (or take_arguments), advance until finished(); persistent: start and
/// advance again. Reused, so that in the end nothing is allocated. advance() is for several threads, the
/// others while no thread is in it.
class Operation {
 public:
  ~Operation() { end(); }

  /// Makes it the communicator's next, in the same order on all ranks. `comm`: the program's, if it blocks.
  void begin(std::shared_ptr<CommState> state, Mode mode, const char* function,
             MPI_Comm comm = MPI_COMM_NULL);

  /// Takes checked arguments. Datatypes are held where they are needed after the call; arrays only MPI reads
  /// after it. `judges`, blocking: only finds the block whose ends are known to differ, and fails with it.
  void take_arguments(const Arguments& arguments, bool judges = false);
  /// The call, whose blocks others describe themselves instead, and how its plan is chosen.
  [[nodiscard]] Call& call() { return call_; }
  [[nodiscard]] Choosing& choosing() { return choosing_; }

  /// Advances as far as possible, persistent ones until they are prepared; with `block` it may wait for a
  /// message. Whether it has come to rest. Never throws: see outcome().
  bool advance(bool block) noexcept;
  /// Persistent: begins a run. Precondition: it is prepared, and no run is unfinished.
  void start();

  [[nodiscard]] bool at_rest() const;
  [[nodiscard]] bool finished() const { return stage_ == Stage::finished; }
  /// Whether MPI is to carry it out, when nothing of ours is alive; with what is to be told of that.
  [[nodiscard]] bool is_mpis(Route& route) const;

  /// What became of it.
  struct Outcome {
    int code = MPI_SUCCESS;
    std::string message;  ///< what went wrong
    CallError::Seen seen = CallError::Seen::here;
    bool out_of_tags = false;  ///< too many persistent operations live; alike on all ranks
  };
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }

  /// Forgets everything but memory, so that the object can serve another call. Precondition: it is at rest.
  void end();

 private:
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

  [[nodiscard]] bool step(bool block);
  bool step_turn();
  bool step_numbers();
  bool step_plan();
  bool step_running(bool block);
  void after_turn();
  void after_arrivals();
  void take_plan();
  bool launch();
  void finish();
  void fail(int code, const char* words);
  void leave_queue();
  [[nodiscard]] std::string waits_for() const;

  mutable std::mutex mutex_;  // held in advance()
  Call call_;
  Stage stage_ = Stage::idle;
  bool queued_ = false;
  Outcome outcome_;

  HeldTypes types_;  // made of the caller's, which may be freed
  PersistentWindow window_;
  CallNumbers numbers_;
  bool judging_ = false;    // the ends of some block differ
  bool by_memory_ = false;  // shared memory carries it, and whatever is compared is compared there
  Choosing choosing_;
  Run run_;
  std::optional<double> mpi_seconds_;  // what MPI took beside this run, for the report
  double started_ = 0;                 // MPI_Wtime of the call or of the run
  Watch watch_;
};

}  // namespace tapa
