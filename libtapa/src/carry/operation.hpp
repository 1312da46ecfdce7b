/// @file
/// One all-to-all from its arguments to its end, as a state machine. Blocking calls run it to the end,
/// nonblocking ones advance it now and then, persistent ones prepare it once and start it often.
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

/// Life: begin, describe call().exchange (or take_arguments), advance until finished(); for persistent ones
/// again start and advance. Objects are reused: in steady state nothing is allocated. advance() may be called
/// from several threads; the others only while no thread is in it.
class Operation {
 public:
  ~Operation() { end(); }

  /// Makes it the next operation of a communicator. Collective in the sense that all ranks do so in the same
  /// order. `comm`: the program's, in a blocking call.
  void begin(std::shared_ptr<CommState> state, Mode mode, const char* function,
             MPI_Comm comm = MPI_COMM_NULL);

  /// Takes checked arguments. Datatypes of nonblocking and persistent operations are held when they are
  /// needed after the call; count, displacement and type arrays are not read after it unless MPI carries the
  /// call out. `judges`, blocking: only finds the block whose two ends differ, which all ranks know to be
  /// there, and fails with it.
  void take_arguments(const Arguments& arguments, bool judges = false);
  /// The call, whose blocks others describe themselves instead, and how its plan is chosen.
  [[nodiscard]] Call& call() { return call_; }
  [[nodiscard]] Choosing& choosing() { return choosing_; }

  /// Advances as far as possible. Persistent operations stop when they are prepared. With `block` it may wait
  /// for a message. Returns whether it has come to rest. Never throws: see outcome().
  bool advance(bool block) noexcept;
  /// Persistent: begins a run. Precondition: it is prepared, and no run is unfinished.
  void start();

  [[nodiscard]] bool at_rest() const;
  [[nodiscard]] bool finished() const { return stage_ == Stage::finished; }
  /// Whether it has come to rest because MPI is to carry it out, on the program's communicator, when nothing
  /// of ours is alive; with what is to be told of that.
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
  void fail(int code, const std::string& message);
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
