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

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"
#include "run/mpi_call.hpp"
#include "run/shm_exchange.hpp"
#include "run/small_exchange.hpp"
#include "run/small_reduce.hpp"

namespace tapa {

enum class Mode : std::uint8_t { blocking, nonblocking, persistent };

/// Why a plan is taken that is tried to learn its time.
inline constexpr const char* kProbed = "being probed";

/// What MPI carries out instead, on the program's communicator, when nothing of ours is alive: see
/// note_mpis().
struct LeftToMpi {
  CommState* state = nullptr;  ///< lives until a communicator is freed
  bool as_made = false;        ///< MPI was asked for
  bool noted = false;          ///< whether it matters how long that takes
  bool staged = false;         ///< of copies in host memory
  bool tried = false;          ///< the call is a probe:
  ProbeKey key{};
  std::uint64_t sent = 0;  ///< bytes
  bool uniform = false;
  std::size_t bytes = 0;  ///< of a (mean) block
};

/// Stages: turn -> [tags] -> [arrivals] -> [check -> verdict] -> plan -> [counts] -> ready -> launch ->
/// running -> [check -> verdict] -> [sums] -> finished, or -> mpi.
/// Life: reset, fill exchange() (or take_arguments), prepare; then advance until finished(); for persistent
/// ones again start and advance. Objects are reused: in steady state nothing is allocated. advance() may be
/// called from several threads; the others only while no thread is in it.
class Operation {
 public:
  Operation() = default;
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Makes it the next operation of a communicator. Collective in the sense that all ranks do so in the same
  /// order.
  /// `comm`: the program's, in a blocking call.
  void begin(std::shared_ptr<CommState> state, Mode mode, const char* function,
             MPI_Comm comm = MPI_COMM_NULL);

  /// Takes checked arguments. Datatypes of nonblocking and persistent operations are held when they are
  /// needed after the call; count, displacement and type arrays are not read after it unless MPI carries the
  /// call out.
  void take_arguments(const Arguments& arguments);

  /// The description, for callers that make their own blocks instead of take_arguments.
  [[nodiscard]] Exchange& exchange() { return exchange_; }

  /// Counts of all blocks that all ranks know alike: the exchange of counts is skipped. `mean` is the size of
  /// a mean block by which the plan is chosen; `key` holds numbers on which the plan depends.
  void know_counts(std::shared_ptr<const Counts> counts, std::size_t mean, std::vector<std::size_t> key);

  /// Advances as far as possible. Persistent operations stop when they are prepared. With `block` it may wait
  /// for a message. Returns finished() or, for persistent ones before start(), ready(). Never throws: see
  /// code().
  bool advance(bool block) noexcept;

  /// Blocking: only finds the block whose two ends differ, which all ranks know to be there, and fails with
  /// it. After take_arguments().
  void judge();

  /// Whether it has come to rest because MPI is to carry it out; what is to be told about that.
  [[nodiscard]] bool is_mpis() const { return stage_ == Stage::mpi; }
  [[nodiscard]] LeftToMpi left_to_mpi() const;

  /// Persistent: begins a run. Precondition: ready() and no run unfinished.
  void start();

  [[nodiscard]] bool ready() const { return stage_ == Stage::ready; }
  [[nodiscard]] bool finished() const { return stage_ == Stage::finished; }

  /// MPI_SUCCESS, or what went wrong.
  [[nodiscard]] int code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  /// Whether it failed because too many persistent operations live; alike on all ranks.
  [[nodiscard]] bool out_of_tags() const { return out_of_tags_; }
  [[nodiscard]] CallError::Seen seen() const { return seen_; }
  [[nodiscard]] const char* function() const { return function_; }
  [[nodiscard]] const std::shared_ptr<CommState>& state() const { return state_; }

  /// How a thread that has nothing else to do waits for it, and whether it may do so inside MPI.
  [[nodiscard]] Wait wait_mode() const;
  [[nodiscard]] bool may_block() const;

  /// Forgets everything but memory, so that the object can serve another call. Precondition: finished or
  /// ready.
  void end();

 private:
  enum class Stage : std::uint8_t {
    idle,
    turn,
    tags,      // persistent: which tags and buffers are free everywhere
    arrivals,  // whether everybody makes the call, so that the watchdog can name who does not
    check,
    verdict,
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
  void ask_free();
  bool step_tags();
  void leave_queue();
  void give_back_tags();
  void trim();
  void after_turn();
  [[nodiscard]] bool goes_through_memory();
  [[nodiscard]] bool compares() const { return options_->settings().check >= Check::counts; }
  void after_arrivals();
  bool step_verdict();
  bool step_plan();
  void end_preparation();
  bool choose_uniform(Offer offer);
  bool choose(Offer offer);
  bool launch();
  void launch_plan();
  bool launch_memory();
  struct EqualBlocks {
    const std::byte* send;
    std::byte* recv;
  };
  [[nodiscard]] std::optional<EqualBlocks> equal_blocks() const;
  void begin_memory();
  void stage_for_memory();
  bool step_memory(bool block);
  void sample_mpi();
  [[nodiscard]] bool sample_is_due() const;
  void report_run();
  [[nodiscard]] Offer offer() const;
  [[nodiscard]] bool exchange_tells_mean() const;
  bool next_probe(bool uniform, std::size_t bytes, Offer offer, std::optional<Decision>& decision);
  void tell_probe();
  void note_blocks();
  /// Bytes of a block, or of a mean one where they differ; alike on all ranks.
  [[nodiscard]] std::size_t bytes_per_pair() const {
    return exchange_.uniform ? exchange_.uniform_bytes : mean_;
  }
  bool step_running(bool block);
  void finish();
  void fail(int code, const std::string& message);

  void start_check();
  void start_verdict();
  void start_counts();
  void plan_from_counts();
  void stage_blocks();
  void start_sums();
  void check_sums();
  void watch();
  void explain_run();
  [[nodiscard]] double timeout() const;
  [[nodiscard]] std::string waits_for() const;
  [[nodiscard]] std::vector<int> others() const;
  void hold_types(std::vector<Block>& blocks);
  void free_types();

  mutable std::mutex mutex_;  // held in advance()
  std::shared_ptr<CommState> state_;
  std::shared_ptr<const Options> options_;
  Mode mode_ = Mode::blocking;
  const char* function_ = "";
  MPI_Comm comm_ = MPI_COMM_NULL;
  Stage stage_ = Stage::idle;
  bool queued_ = false;
  int code_ = MPI_SUCCESS;
  std::string message_;
  CallError::Seen seen_ = CallError::Seen::here;

  Arguments arguments_;
  bool has_arguments_ = false;
  Exchange exchange_;
  std::vector<MPI_Datatype> types_;  // made of the caller's, which may be freed
  std::shared_ptr<const Counts> known_;
  std::size_t mean_ = 0;
  bool mean_known_ = false;  // whether this call has asked for it
  std::vector<std::size_t> key_;
  Decision decision_;

  TagWindow tags_;
  SmallReduce free_;  // persistent: which windows and which region
  bool asking_ = false;
  std::size_t tag_block_ = 0;   // of windows, that is being asked for
  std::size_t tag_blocks_ = 0;  // asked for so far
  bool out_of_tags_ = false;
  ArenaRegion region_;  // persistent: shared memory of its own
  std::unique_ptr<ShmBuffers> own_buffers_;
  bool judging_ = false;    // the ends of some block differ
  bool by_memory_ = false;  // shared memory carries it, and whatever is compared is compared there
  SmallExchange numbers_;
  std::vector<std::size_t> outgoing_;
  SmallExchange sums_;
  std::shared_ptr<PlanEntry> entry_;
  std::unique_ptr<Executor> executor_;

  ShmBuffers* buffers_ = nullptr;  // when the choice is memory
  ShmExchange shm_exchange_;       // its run
  ShmBlocks shm_blocks_;
  bool staged_ = false;  // whether recv_ says where blocks arrive

  std::unique_ptr<std::byte[]> staging_;
  std::size_t staging_size_ = 0;
  std::vector<const std::byte*> send_;
  std::vector<std::byte*> recv_;

  std::optional<ProbeKey> tried_;      // the plan is being probed: its time counts
  std::optional<double> mpi_seconds_;  // what MPI took beside this run, for the report
  double started_ = 0;                 // MPI_Wtime of the call or of the run
  double warned_ = 0;                  // age at which the watchdog spoke last
};

/// MPI has carried a call out in so many seconds, from `began` on. Not after an error handler may have freed
/// communicators.
void note_mpis(const LeftToMpi& left, const char* function, double seconds);

/// The line of TAPA_EXPLAIN for a plan, whose first run took so long.
[[nodiscard]] std::string explanation(const PlanEntry& entry, const char* function, int ranks,
                                      double seconds);

/// Brings an operation to its end (or, persistent, to ready()), making other operations progress meanwhile.
void complete(Operation& operation);

}  // namespace tapa
