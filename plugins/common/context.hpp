/// A context of an exchange over MPI: its ranks, what is under way, and who makes it progress.
///
/// Where MPI allows (MPI_THREAD_MULTIPLE), a thread looks at what is under way while the program computes. It
/// sleeps most of the time: MPI and the kernel move bytes by themselves for a while, and cores may be shared
/// with ranks that compute. Once the program waits, it looks itself, all the time, and the thread keeps out
/// of the way. Without exchanges the thread sleeps until there are some. Starts that wait for other ranks
/// have a thread for each channel, so that channels never wait for each other.
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/all_to_all.hpp"
#include "common/arrivals.hpp"
#include "common/channel.hpp"
#include "common/device_queue.hpp"
#include "common/mpi_error.hpp"
#include "common/mpi_session.hpp"
#include "dit/exchange.h"
#include "exchange/plugin_config.hpp"

/// An exchange of host memory under way.
struct dit_request {
  std::unique_ptr<dit::Transfer> transfer;
  dit::Channel* channel = nullptr;
  std::uint64_t number = 0;  ///< in its channel, from 1
  MPI_Request request = MPI_REQUEST_NULL;
  std::string label;
  std::chrono::steady_clock::time_point begun;
  bool started = false;
  bool done = false;
  bool cancelled = false;  ///< nobody waits for it; when it is done:
  dit_release release = nullptr;
  void* user = nullptr;
};

namespace dit {

/// How a context was opened; its parts inherit it.
struct ContextSettings {
  double timeout_seconds = 0;
  std::string config;
};

class MpiContext final : public SessionMember {
 public:
  /// Collective: all ranks fail when one does. `comm` is the context's own from now on.
  [[nodiscard]] static std::unique_ptr<MpiContext> make(const AllToAllKind& kind, MpiSession& session,
                                                        MPI_Comm comm, double timeout_seconds,
                                                        const char* config);
  /// For make(): in a step of together(). `comm` is its own when it is made.
  MpiContext(const AllToAllKind& kind, MpiSession& session, MPI_Comm comm, ContextSettings settings);
  ~MpiContext() override;

  /// Waits for what is under way; collective. Throws PluginFailure when that fails.
  void close();
  /// Whether an exchange or close has failed: then close does nothing, and the context must not be destroyed,
  /// as MPI may still write into its memory; abandon() makes that safe.
  [[nodiscard]] bool failed() const;
  void abandon() noexcept;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(levels_.of.size()); }
  [[nodiscard]] const Levels& levels() const { return levels_; }

  /// Sets the request, null when the exchange is complete. Throws PluginFailure; the request is then set when
  /// a blocking exchange is late.
  void start(const dit_exchange_call& call, dit_request*& request);
  /// These set the request to null when its buffers are no longer used.
  void test(dit_request*& request);
  void wait(dit_request*& request);
  void wait_stream(dit_request* request, void* stream);
  void cancel(dit_request*& request, dit_release release, void* user);
  /// Tells the owners of cancelled exchanges that are done.
  void release_buffers() noexcept;

  void check();  ///< throws what has failed for good

  [[nodiscard]] int open_channel();

  /// Device memory, for kinds that exchange it; see the plugin's table.
  [[nodiscard]] dit_memory* register_memory(void* memory, std::size_t bytes, int memory_kind, int device);
  [[nodiscard]] DeviceQueue& devices() { return devices_; }

  [[nodiscard]] std::unique_ptr<MpiContext> split(int colour, int key);
  void totals(dit_exchange_totals& totals) const;
  [[nodiscard]] std::string describe() const;

  void stop() noexcept override;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  static constexpr double kShortestPause = 50;  ///< microseconds
  static constexpr double kDefaultPause = 1000;
  static constexpr double kCrowdedPause =
      10000;  ///< each look takes a core, and its cache, from another rank
  static constexpr double kLongestPauseOfWait = 2500;
  static constexpr int kWaitersHaste = 8;  ///< the end is seen so much sooner than beside computation
  static constexpr std::chrono::milliseconds kNoticePause{5};    ///< between looks for questions
  static constexpr std::chrono::milliseconds kAnswersTime{200};  ///< a late exchange's ranks have to answer
  static constexpr std::chrono::milliseconds kSettleTime{1000};  ///< for messages on their way at close

  void agree(MpiRanks& ranks);
  void read_settings(const PluginConfig& config);
  [[nodiscard]] ContextPlace place() const;

  void start_on_device(const dit_exchange_call& call, dit_request*& request);
  void open_devices(int device);
  void close_devices();
  void run_here(Transfer& transfer);
  [[nodiscard]] dit_request& enqueue(const dit_exchange_call& call, std::unique_ptr<Transfer> transfer);
  [[nodiscard]] bool must_wait_in_line(const dit_request& request) const;
  void start_by_thread(Channel& channel);
  void start_transfer(dit_request& request, Lock& lock);
  void advance();
  void look_once() noexcept;
  [[nodiscard]] bool unfinished() const;
  void wait_for(dit_request& request, Lock& lock);
  [[nodiscard]] std::string find_missing(const dit_request& request, Lock& lock);
  void take_finished(dit_request*& request);
  [[nodiscard]] dit_request& known(dit_request* request);
  void run_thread();
  void run_starter(Channel& channel);
  [[nodiscard]] std::chrono::microseconds pause(double longest_us) const;
  void pause_in_wait(Lock& lock) const;
  [[nodiscard]] std::string overdue(const dit_request& request, const std::string& missing) const;
  void settle_arrivals(Lock& lock);
  void wait_for_starts();
  void free_communicators();
  [[noreturn]] void fail(dit_status status, const std::string& what);
  void require_good() const;

  const AllToAllKind& kind_;
  MpiSession& session_;
  MPI_Comm comm_;  ///< of channel 0
  ContextSettings settings_;
  std::vector<std::unique_ptr<Channel>> channels_;
  Levels levels_;
  int rank_ = 0;
  bool threaded_ = false;
  bool crowded_ = false;  ///< more ranks than cores: who waits must leave the core to those that compute
  bool limited_ = false;  ///< some rank has a time limit, and may ask for arrivals
  bool threaded_everywhere_ = false;  ///< alike on all ranks
  double longest_pause_us_ = 0;
  DeviceQueue devices_;

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable wake_;
  std::deque<std::unique_ptr<dit_request>> under_way_;  ///< in order of their starts
  std::unique_ptr<Arrivals> arrivals_;                  ///< when some rank has a time limit
  bool asking_ = false;                                 ///< a thread asks for arrivals
  std::vector<std::uint64_t> started_;                  ///< exchanges, by channel
  Clock::time_point next_look_;                         ///< for questions about arrivals
  int waiting_ = 0;  ///< threads of the program that wait, and look themselves
  bool stopped_ = false;
  dit_exchange_totals totals_{};
  dit_status failed_ = DIT_OK;
  std::string failure_;
  std::thread thread_;
};

}  // namespace dit
