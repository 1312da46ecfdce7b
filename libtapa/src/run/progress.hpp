/// @file
/// Makes pending operations advance while the program is inside MPI, and completes MPI requests for them.
/// Nonblocking operations get a generalized request; persistent ones a real persistent request, which
/// MPI_Start, MPI_Startall, MPI_Wait, MPI_Test and MPI_Request_free work on.
///
/// How a persistent request works: it is a synchronous send of one byte from this rank to itself. MPI_Start
/// sends it, a probe finds it and starts the task, and when the task has ended the byte is received, which
/// completes the send. The datatype of the send carries an attribute; MPI deletes that when it frees
/// the request, which tells us that the prepared task is no longer needed.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tapa {

/// Something that ends after some calls of advance(). The engine calls one method at a time.
class Task {
 public:
  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  Task& operator=(Task&&) = delete;

  /// Begins a run. Called once for nonblocking operations, for each start of a persistent one.
  virtual void start() noexcept {}

  /// Does what can be done without waiting for another rank. Returns whether the run has ended.
  virtual bool advance() noexcept = 0;

  /// MPI_SUCCESS, or the error code of the run that has ended.
  [[nodiscard]] virtual int result() const noexcept = 0;

  /// What went wrong in that run, for TAPA_Last_error() in the thread that completes the request.
  [[nodiscard]] virtual std::string message() const { return {}; }

 protected:
  Task(Task&&) = default;  ///< before it is submitted
};

/// Who calls the engine while the program waits in MPI.
enum class Driver : std::uint8_t {
  hook,    ///< Open MPI's progress engine, from every MPI call that waits or tests
  thread,  ///< a thread of the library's own; needs MPI_THREAD_MULTIPLE
  wait,    ///< MPICH, from calls that wait for or test a request of ours, and no others
  none     ///< nobody: nonblocking operations must be left to MPI
};

[[nodiscard]] std::string_view to_string(Driver driver);

/// The engine. One for each process, made at first use, ended by MPI_Finalize. Thread-safe as far as MPI is.
/// Methods that return int return MPI_SUCCESS or an MPI error code; those other than MPI's own are named at
/// the method.
class Progress {
 public:
  /// Precondition: MPI is initialised.
  static Progress& instance();

  /// Ends it before MPI_Finalize does, for what must outlive its tasks; nothing when it was never made. What
  /// MPI deletes first there depends on what a program used first.
  static void end();
  /// Before first use: MPI_Finalize will not end it, the caller will by end().
  static void outlast_finalize();

  /// The driver in use: TAPA_PROGRESS when it names one that is possible here, else the first possible one.
  [[nodiscard]] Driver driver() const { return driver_; }

  /// Whether operations advance whenever the program waits in MPI, for whatever it waits: what MPI promises
  /// of its own. With the driver `wait` a rank that waits for a message would let others wait for it.
  [[nodiscard]] bool always_advances() const { return driver_ == Driver::hook || driver_ == Driver::thread; }

  /// Makes now what later calls would make of MPI, where they could wait for what the program has begun
  /// meanwhile. What fails here fails there, which is told then.
  void settle();

  /// Starts a task. `request` completes when the task has ended, with its result as the request's error; with
  /// the driver `thread` every error is MPI_ERR_TRUNCATE, but for Open MPI.
  /// MPI_ERR_UNSUPPORTED_OPERATION when the driver is `none`.
  [[nodiscard]] int submit(std::unique_ptr<Task> task, MPI_Request* request);

  /// A request that has ended, without an error: of a task that had nothing to wait for.
  [[nodiscard]] static int ended(MPI_Request* request);

  /// Makes a persistent request, inactive, whose starts run the task. MPI has no way to give the result of a
  /// failed run to MPI_Wait here: the task must report it itself, and start() refuses the request afterwards.
  /// MPI_ERR_UNSUPPORTED_OPERATION unless always_advances().
  [[nodiscard]] int prepare(std::unique_ptr<Task> task, MPI_Request* request);

  /// What is known about a persistent request.
  enum class State : std::uint8_t { unknown, idle, active, failed };
  [[nodiscard]] State state(MPI_Request request);

  /// Starts persistent requests at once. Precondition: state() is idle for each.
  [[nodiscard]] int start(int count, MPI_Request requests[]);

  /// Frees a persistent request and its task. Precondition: state() is idle or failed.
  [[nodiscard]] int free(MPI_Request* request);

  /// Advances everything, unless a thread does so at this moment. Returns how many runs were begun or ended.
  int poll();

  /// Advances what is pending in this process, if anything, from loops that do not wait inside MPI.
  static void relay();
  static constexpr int relay_every = 64;  ///< polls, of who waits elsewhere

  /// Keeps the engine from running inside the MPI calls of this thread, while it holds a lock that tasks take
  /// too.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    bool before_;
  };

  /// Whether this thread is inside the engine, perhaps deep inside MPI.
  [[nodiscard]] static bool is_inside();

  /// Nonblocking tasks that have not ended, and persistent requests that exist; for tests and reports.
  [[nodiscard]] std::size_t pending();
  [[nodiscard]] std::size_t persistent();

 private:
  struct Completion;
  struct Job;
  struct Persistent;
  class Inside;

  Progress();
  static int hook();
  static std::atomic<bool> awake_;  // whether there may be something to do
  static std::atomic<bool> made_;
  static std::atomic<bool> outlasts_;
  static int on_finalize(MPI_Comm comm, int keyval, void* value, void* extra);
  static int on_type_freed(MPI_Datatype type, int keyval, void* value, void* extra);

  void pick_driver();
  int make_self();
  void wake();
  void rest();
  void run_thread();
  void shut_down();

  int open(Job& job);
  int open_generalized(Job& job);
  int open_polled(Job& job);
  int open_receive(Job& job);
  void close(Job& job);
  static void rouse();
  int advance_all();
  int advance_jobs();
  int next_start();
  int find_starts();
  int advance_persistent();
  void reclaim();
  [[nodiscard]] Persistent* find(MPI_Request request);
  [[nodiscard]] std::size_t free_slot();

  std::mutex mutex_;  // held while anything below is used
  Driver driver_ = Driver::none;
  bool hooked_ = false;
  std::vector<Job> jobs_;
  std::vector<std::unique_ptr<Persistent>>
      persistent_;  // the index is the tag of its starts; null when unused
  std::size_t persistent_count_ = 0;
  std::size_t active_ = 0;             // persistent ones that run
  std::atomic<std::size_t> freed_{0};  // persistent ones whose request MPI has freed
  MPI_Comm self_ = MPI_COMM_NULL;      // this rank alone; carries the starts
  MPI_Comm ends_ = MPI_COMM_NULL;      // likewise; carries the ends of nonblocking operations
  int next_tag_ = 0;
  int type_keyval_ = MPI_KEYVAL_INVALID;
  std::array<char, 2> bytes_{};  // what starts and ends send
  char sink_ = 0;                // and receive

  std::thread thread_;
  std::condition_variable wake_;
  bool stop_ = false;
};

}  // namespace tapa
