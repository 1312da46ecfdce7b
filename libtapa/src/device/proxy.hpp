/// @file
/// The host's end of pipes (pipe.hpp): a thread that sends what the device has filled and keeps receives
/// ready for what it will empty.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/messenger.hpp"
#include "device/pipe.hpp"

namespace tapa::device {

/// One pipe as the host sees it.
struct HostPipe {
  Address address;
  bool sends = false;
  PipeWords* words = nullptr;
  std::byte* slots = nullptr;
  const Word* missing = nullptr;  ///< not 0: the device has given the peer up; null: nobody says
};

/// Moves the chunks of all pipes, one after the other. Not thread-safe; Proxy gives it a thread.
///
/// A chunk is sent when its receiver is ready for it, so that no MPI has to keep what nobody asked for: the
/// receiving end says now and then how many chunks it is ready for ("grants").
class PipeMover {
 public:
  /// `chunk`: bytes of a slot.
  PipeMover(Messenger& messenger, const std::vector<HostPipe>& pipes, std::size_t chunk);

  /// Moves what can be moved. True when something moved. Throws DeviceError.
  bool turn();

  /// Whether all that devices have filled so far is sent, but to peers that are given up.
  [[nodiscard]] bool all_sent() const;
  /// Lets nobody wait for messages any more.
  void break_off();

 private:
  struct Ends {
    HostPipe pipe;
    std::size_t first_request;
    Word posted = 0;  ///< messages given to the messenger
    Word done = 0;    ///< and done
    Word granted =
        0;           ///< chunks that the receiver is ready for, as the sending end knows it, or has been told
    Word grant = 0;  ///< message to it or from it
  };
  [[nodiscard]] static std::size_t grant_request(const Ends& ends) { return ends.first_request + kPipeSlots; }
  bool post(Ends& ends);
  void post_sends(Ends& ends);
  void post_receives(Ends& ends);
  void exchange_grant(Ends& ends);
  bool complete(Ends& ends);
  void notice_leaving(const Ends& ends) const;

  Messenger& messenger_;
  std::vector<Ends> ends_;
  std::size_t chunk_;
};

/// A thread that turns a PipeMover until it is stopped or a message fails.
class Proxy {
 public:
  /// `last_wait`: how long it waits at the end for a receiver that takes nothing: it has failed.
  Proxy(std::unique_ptr<Messenger> messenger, const std::vector<HostPipe>& pipes, std::size_t chunk,
        std::chrono::milliseconds last_wait = std::chrono::seconds(60));
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// Wakes it when it has had nothing to do for long; without it a message may wait for some 100 us.
  void wake();
  /// Asks the thread to end, and does not wait; see finish().
  void stop(bool sends);
  /// Ends the thread, and what it still expects. `sends`: first it sends all that the device has filled,
  /// which others may wait for. Nothing more may be filled. In a process that was forked since it does
  /// nothing.
  void finish(bool sends);
  /// What has ended it; "" while all is well.
  [[nodiscard]] std::string failure() const;

 private:
  void run();
  /// `busy`: when something moved last.
  void doze(std::chrono::steady_clock::time_point busy);
  /// `busy`: when something moved last.
  [[nodiscard]] bool ends(std::chrono::steady_clock::time_point busy) const;

  std::unique_ptr<Messenger> messenger_;
  PipeMover mover_;
  std::chrono::milliseconds last_wait_;
  pid_t process_;                                  ///< whose thread it is
  std::chrono::steady_clock::time_point stopped_;  ///< when it was told to stop; written before stop_
  std::atomic<bool> stop_ = false;
  std::atomic<bool> sends_all_ = false;  ///< before it stops
  std::atomic<bool> asleep_ = false;
  mutable std::mutex mutex_;
  std::condition_variable awake_;
  std::string failure_;
  std::thread thread_;
};

}  // namespace tapa::device
