#include "device/proxy.hpp"

#include <atomic>
#include <chrono>
#include <exception>

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

}  // namespace

PipeMover::PipeMover(Messenger& messenger, std::vector<HostPipe> pipes, std::size_t chunk)
    : messenger_(messenger), chunk_(chunk) {
  for (HostPipe& pipe : pipes) ends_.push_back({pipe, ends_.size() * kPipeSlots});
  messenger_.provide(ends_.size() * kPipeSlots);
}

bool PipeMover::turn() {
  bool moved = false;
  for (Ends& ends : ends_) moved = post(ends) || moved;
  messenger_.progress();
  for (Ends& ends : ends_) moved = complete(ends) || moved;
  return moved;
}

bool PipeMover::post(Ends& ends) {
  const HostPipe& pipe = ends.pipe;
  const Word device = load(pipe.words->device);
  // A chunk is sent when the device has filled it, and can be received when the device has emptied its slot.
  const Word ready = pipe.sends ? device : device + kPipeSlots;
  const bool any = ends.posted < ready;
  for (; ends.posted < ready; ++ends.posted) {
    const Word slot = ends.posted % kPipeSlots;
    std::byte* const memory = pipe.slots + slot * chunk_;
    const std::size_t request = ends.first_request + slot;
    if (pipe.sends) {
      messenger_.send(request, pipe.address, memory, pipe.words->bytes[slot]);
    } else {
      messenger_.receive(request, pipe.address, memory, chunk_);
    }
  }
  return any && pipe.sends;
}

bool PipeMover::complete(Ends& ends) {
  const Word before = ends.done;
  while (ends.done < ends.posted && messenger_.done(ends.first_request + ends.done % kPipeSlots)) ++ends.done;
  if (ends.done == before) return false;
  store(ends.pipe.words->host, ends.done);
  return true;
}

Proxy::Proxy(std::unique_ptr<Messenger> messenger, std::vector<HostPipe> pipes, std::size_t chunk)
    : messenger_(std::move(messenger)),
      mover_(*messenger_, std::move(pipes), chunk),
      thread_([this] { run(); }) {}

Proxy::~Proxy() {
  stop_ = true;
  wake();
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
    while (!stop_.load()) {
      if (mover_.turn()) {
        busy = std::chrono::steady_clock::now();
      } else if (std::chrono::steady_clock::now() - busy > kBusy) {
        doze();
      } else {
        std::this_thread::yield();
      }
    }
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    failure_ = error.what();
  }
}

void Proxy::doze() {
  std::unique_lock lock(mutex_);
  asleep_ = true;
  if (!stop_.load()) awake_.wait_for(lock, kNap);
  asleep_ = false;
}

}  // namespace tapa::device
