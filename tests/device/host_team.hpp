/// @file
/// A team whose lanes are threads of the host, so that the protocol of the device engine runs without a GPU.
/// Words that peers share are atomic; data is plain, and the thread sanitizer sees whether flags order it.
#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "device/exchange.hpp"

namespace tapa::device {

/// What the lanes of a team share.
class TeamMeeting {
 public:
  explicit TeamMeeting(int lanes) : lanes_(lanes), barrier_(lanes) {}

  [[nodiscard]] int lanes() const { return lanes_; }
  /// A barrier; whether a lane said true in it. `round`: the number of the lane's call.
  bool any(bool mine, std::uint64_t round) {
    if (mine) said_[round % 3].store(true);
    barrier_.arrive_and_wait();
    const bool result = said_[round % 3].load();
    // Nobody sets or reads the flag of the next but one call yet, or of the last one any more.
    said_[(round + 2) % 3].store(false);
    return result;
  }

 private:
  int lanes_;
  std::barrier<> barrier_;
  std::array<std::atomic<bool>, 3> said_{};
};

class HostTeam {
 public:
  struct alignas(16) Wide {
    std::array<std::byte, 16> bytes;
  };

  /// `delays`: one in so many steps waits some microseconds; 0: none.
  HostTeam(TeamMeeting& meeting, int index, int lane, unsigned seed, int delays)
      : meeting_(meeting), index_(index), lane_(lane), random_(seed), delays_(delays) {}

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] int lane() const { return lane_; }
  [[nodiscard]] int lanes() const { return meeting_.lanes(); }

  bool any(bool mine) {
    stumble();
    return lanes() == 1 ? mine : meeting_.any(mine, rounds_++);
  }

  template <class Unit>
  Unit load(const std::byte* from) {
    Unit unit;
    std::memcpy(&unit, from, sizeof(Unit));
    return unit;
  }
  template <class Unit>
  void store(std::byte* to, const Unit& unit) {
    std::memcpy(to, &unit, sizeof(Unit));
  }

  static Word relaxed(const Word* word) { return shared(word).load(std::memory_order_relaxed); }
  static Word acquire(const Word* word) { return shared(word).load(std::memory_order_acquire); }
  void post(Word* word, Word value) {
    stumble();
    // What this rank read before comes before what the peer stores when it sees the word; on a GPU the end of
    // the kernel before did that.
    shared(word).store(value, std::memory_order_release);
  }
  void signal(Word* word, Word value) {
    stumble();
    shared(word).store(value, std::memory_order_release);
  }

  static Line load_line(const Line* line) {
    const std::uint64_t low = half(line, 0).load(std::memory_order_acquire);
    const std::uint64_t high = half(line, 1).load(std::memory_order_acquire);
    return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
            static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
  }
  void store_line(Line* line, std::uint64_t data, std::uint32_t flag) {
    stumble();
    half(line, 1).store(std::uint64_t{flag} << 32 | data >> 32, std::memory_order_release);
    half(line, 0).store(std::uint64_t{flag} << 32 | (data & 0xffffffff), std::memory_order_release);
  }

  bool looks(std::uint32_t spins) {
    std::this_thread::yield();
    if (spins != 1) return true;
    began_ = std::chrono::steady_clock::now();
    late_ = false;
    return true;
  }
  bool gives_up(Word timeout) {
    const bool was_late = late_;
    late_ = timeout != 0 && std::chrono::steady_clock::now() - began_ > std::chrono::nanoseconds(timeout);
    return was_late && late_;
  }
  static bool aborted(LocalState& local) { return std::atomic_ref(local.aborted).load() != 0; }
  static void note(Word* word, Word value) { std::atomic_ref(*word).store(value); }
  static void lost(LocalState& local, Word* failure, Word sequence) {
    std::atomic_ref(local.aborted).store(1);
    std::atomic_ref(*failure).store(sequence);
  }
  void leave(LocalState& local, Word sequence, int teams) {
    any(false);
    if (lane_ != 0) return;
    if (std::atomic_ref(local.finished).fetch_add(1) + 1 != static_cast<std::uint32_t>(teams)) return;
    std::atomic_ref(local.finished).store(0);
    std::atomic_ref(local.sequence).store(sequence + 1);
  }

 private:
  static std::atomic_ref<Word> shared(const Word* word) {
    return std::atomic_ref<Word>(*const_cast<Word*>(word));
  }
  static std::atomic_ref<std::uint64_t> half(const Line* line, int index) {
    return std::atomic_ref<std::uint64_t>(reinterpret_cast<std::uint64_t*>(const_cast<Line*>(line))[index]);
  }
  void stumble() {
    if (delays_ == 0 || random_() % static_cast<unsigned>(delays_) != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
  }

  TeamMeeting& meeting_;
  int index_;
  int lane_;
  std::minstd_rand random_;
  int delays_;
  std::uint64_t rounds_ = 0;
  std::chrono::steady_clock::time_point began_;
  bool late_ = false;
};

}  // namespace tapa::device
