#include "device/proxy.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>

#include "device/parents_thread.hpp"

namespace tapa::device {

namespace {

Word load(const Word& word) {
  return std::atomic_ref(const_cast<Word&>(word)).load(std::memory_order_acquire);
}
void store(Word& word, Word value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

/// How long the thread looks for work without a pause after it had some.
constexpr auto kBusy = std::chrono::milliseconds(2);
constexpr auto kNap = std::chrono::microseconds(100);
/// And when there was none for so long, every so often.
constexpr auto kSilence = std::chrono::seconds(1);
constexpr auto kLongNap = std::chrono::milliseconds(1);

/// Grants travel against the data, on channels of their own.
constexpr int kGrantChannels = 1 << 10;
/// Chunks that a receiver lets gather before it grants them.
constexpr Word kGrantStep = kPipeSlots / 4;
constexpr std::size_t kRequests = kPipeSlots + 1;  ///< of a pipe

/// Threads that are started meanwhile leave signals to the program's.
class SignalsElsewhere {
 public:
  SignalsElsewhere() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsElsewhere() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsElsewhere(const SignalsElsewhere&) = delete;
  SignalsElsewhere& operator=(const SignalsElsewhere&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

PipeMover::PipeMover(Messenger& messenger, const std::vector<HostPipe>& pipes, std::size_t chunk)
    : messenger_(messenger), chunk_(chunk) {
  for (const HostPipe& pipe : pipes) {
    // Receivers are ready for the first chunks from the start.
    ends_.push_back({pipe, ends_.size() * kRequests, 0, 0, kPipeSlots, 0});
  }
  messenger_.provide(ends_.size() * kRequests);
}

bool PipeMover::turn() {
  bool moved = false;
  for (Ends& ends : ends_) moved = post(ends) || moved;
  messenger_.progress();
  for (Ends& ends : ends_) moved = complete(ends) || moved;
  for (const Ends& ends : ends_) notice_leaving(ends);
  return moved;
}

bool PipeMover::post(Ends& ends) {
  exchange_grant(ends);
  const Word before = ends.posted;
  if (ends.pipe.sends) {
    post_sends(ends);
  } else {
    post_receives(ends);
  }
  return ends.posted != before;
}

/// What the device has filled and the receiver is ready for.
void PipeMover::post_sends(Ends& ends) {
  const HostPipe& pipe = ends.pipe;
  const Word ready = least(load(pipe.words->device), ends.granted);
  for (; ends.posted < ready; ++ends.posted) {
    const Word slot = ends.posted % kPipeSlots;
    messenger_.send(ends.first_request + slot, pipe.address, pipe.slots + slot * chunk_,
                    pipe.words->bytes[slot]);
  }
}

/// Into all slots that the device has emptied.
void PipeMover::post_receives(Ends& ends) {
  const HostPipe& pipe = ends.pipe;
  const Word ready = load(pipe.words->device) + kPipeSlots;
  for (; ends.posted < ready; ++ends.posted) {
    const Word slot = ends.posted % kPipeSlots;
    messenger_.receive(ends.first_request + slot, pipe.address, pipe.slots + slot * chunk_, chunk_);
  }
}

void PipeMover::exchange_grant(Ends& ends) {
  if (!messenger_.done(grant_request(ends))) return;
  const Address address{ends.pipe.address.peer, ends.pipe.address.channel + kGrantChannels};
  if (ends.pipe.sends) {
    ends.granted = most(ends.granted, ends.grant);
    messenger_.receive(grant_request(ends), address, &ends.grant, sizeof(Word));
  } else if (ends.posted >= ends.granted + kGrantStep) {
    ends.granted = ends.grant = ends.posted;
    messenger_.send(grant_request(ends), address, &ends.grant, sizeof(Word));
  }
}

bool PipeMover::complete(Ends& ends) {
  const Word before = ends.done;
  while (ends.done < ends.posted && messenger_.done(ends.first_request + ends.done % kPipeSlots)) ++ends.done;
  if (ends.done == before) return false;
  store(ends.pipe.words->host, ends.done);
  return true;
}

/// A device that needs more of a peer that has left shall not wait for it. Who has left in order is missed by
/// none: its pipes are not looked at any more.
void PipeMover::notice_leaving(const Ends& ends) const {
  const HostPipe& pipe = ends.pipe;
  if (!messenger_.has_left(pipe.address.peer)) return;
  const Word device = load(pipe.words->device);
  if (pipe.sends ? device > ends.done : device == ends.done) store(pipe.words->host, kPipeBroken);
}

bool PipeMover::all_sent() const {
  return std::all_of(ends_.begin(), ends_.end(), [this](const Ends& ends) {
    const HostPipe& pipe = ends.pipe;
    return !pipe.sends || ends.done == load(pipe.words->device) ||
           (pipe.missing != nullptr && load(*pipe.missing) != 0) || messenger_.has_left(pipe.address.peer);
  });
}

void PipeMover::break_off() {
  for (const Ends& ends : ends_) store(ends.pipe.words->host, kPipeBroken);
}

Proxy::Proxy(std::unique_ptr<Messenger> messenger, const std::vector<HostPipe>& pipes, std::size_t chunk,
             std::chrono::milliseconds last_wait)
    : messenger_(std::move(messenger)),
      mover_(*messenger_, pipes, chunk),
      last_wait_(last_wait),
      process_(::getpid()) {
  messenger_->at_end([this] { stop(true); }, [this] { finish(true); });
  const SignalsElsewhere blocked;
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  messenger_->at_end(nullptr, nullptr);
  finish(false);
}

void Proxy::stop(bool sends) {
  if (stop_) return;
  sends_all_ = sends;
  stopped_ = std::chrono::steady_clock::now();
  stop_ = true;
  wake();
}

void Proxy::finish(bool sends) {
  if (!thread_.joinable()) return;
  if (process_ != ::getpid()) {  // the thread, and the connections, are the other process's
    leave_to_parent(thread_);
    return;
  }
  stop(sends);
  thread_.join();
  try {
    messenger_->abandon();
  } catch (const std::exception&) {
    // The ranks have parted: nothing is expected of these messages any more.
  }
}

void Proxy::wake() {
  if (!asleep_.load()) return;
  const std::lock_guard lock(mutex_);
  awake_.notify_one();
}

std::string Proxy::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Proxy::run() {
  try {
    auto busy = std::chrono::steady_clock::now();
    while (!ends(busy)) {
      if (mover_.turn()) {
        busy = std::chrono::steady_clock::now();
      } else if (std::chrono::steady_clock::now() - busy > kBusy) {
        doze(busy);
      } else {
        std::this_thread::yield();
      }
    }
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      failure_ = error.what();
    }
    mover_.break_off();
  }
}

bool Proxy::ends(std::chrono::steady_clock::time_point busy) const {
  if (!stop_) return false;
  return !sends_all_ || mover_.all_sent() ||
         std::chrono::steady_clock::now() - std::max(busy, stopped_) > last_wait_;
}

void Proxy::doze(std::chrono::steady_clock::time_point busy) {
  const bool silent = std::chrono::steady_clock::now() - busy > kSilence;
  std::unique_lock lock(mutex_);
  asleep_ = true;
  if (!stop_.load()) awake_.wait_for(lock, silent ? std::chrono::microseconds(kLongNap) : kNap);
  asleep_ = false;
}

}  // namespace tapa::device
