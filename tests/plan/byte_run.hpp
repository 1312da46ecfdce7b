/// @file
/// Carries out a plan of all ranks on real bytes, in a random order of what may happen next: says
/// independently of the verifier whether a plan is right.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "plan/counts.hpp"
#include "plan/plan.hpp"

namespace tapa::test {

class ByteRun {
 public:
  ByteRun(const Plan& plan, const Counts& counts, unsigned seed)
      : plan_(plan), counts_(counts), random_(seed) {
    for (int r = 0; r < plan.ranks; ++r) {
      Memory m;
      m.scratch.assign(rank(r).scratch_bytes, 0xEE);
      for (int other = 0; other < plan.ranks; ++other) {
        m.send.emplace_back();
        for (std::size_t i = 0; i < counts.bytes(r, other); ++i)
          m.send.back().push_back(byte_of(r, other, i));
        m.recv.emplace_back(counts.bytes(other, r), std::uint8_t{0});
      }
      memory_.push_back(m);
      done_.emplace_back(rank(r).steps.size(), false);
    }
  }

  /// Empty when everything arrived.
  std::string run() {
    for (std::vector<Event> events = possible(); !events.empty(); events = possible()) {
      const Event e = events[random_() % events.size()];
      move(e);
      done_[static_cast<std::size_t>(e.from)][e.send] = true;
      done_[static_cast<std::size_t>(e.to)][e.recv] = true;
    }
    for (int r = 0; r < plan_.ranks; ++r) {
      const auto& done = done_[static_cast<std::size_t>(r)];
      if (std::find(done.begin(), done.end(), false) != done.end())
        return "rank " + std::to_string(r) + " does not end";
    }
    for (int r = 0; r < plan_.ranks; ++r) {
      for (int src = 0; src < plan_.ranks; ++src) {
        for (std::size_t i = 0; i < counts_.bytes(src, r); ++i) {
          if (memory(r).recv[static_cast<std::size_t>(src)][i] != byte_of(src, r, i)) {
            return "rank " + std::to_string(r) + " has a wrong byte in the block from " + std::to_string(src);
          }
        }
      }
    }
    return {};
  }

 private:
  struct Memory {
    std::vector<std::vector<std::uint8_t>> send, recv;
    std::vector<std::uint8_t> scratch;
  };
  struct Event {
    int from, to;
    std::size_t send, recv;
  };

  static std::uint8_t byte_of(int src, int dst, std::size_t i) {
    const auto x =
        static_cast<std::uint32_t>(src * 7919 + dst * 104729) + static_cast<std::uint32_t>(i) * 2654435761U;
    return static_cast<std::uint8_t>((x ^ (x >> 13) ^ (x >> 21)) |
                                     1U);  // never 0: an untouched byte is wrong
  }

  [[nodiscard]] const RankPlan& rank(int r) const { return plan_.of_rank[static_cast<std::size_t>(r)]; }
  Memory& memory(int r) { return memory_[static_cast<std::size_t>(r)]; }

  [[nodiscard]] bool open(int r, std::size_t i) const {
    const auto& done = done_[static_cast<std::size_t>(r)];
    if (done[i]) return false;
    const auto deps = rank(r).deps_of(rank(r).steps[i]);
    return std::all_of(deps.begin(), deps.end(), [&](std::uint32_t d) { return done[d]; });
  }

  [[nodiscard]] std::vector<Event> possible() const {
    std::vector<Event> events;
    for (int r = 0; r < plan_.ranks; ++r) {
      for (std::size_t i = 0; i < rank(r).steps.size(); ++i) {
        const Step& s = rank(r).steps[i];
        if (s.kind == StepKind::recv || !open(r, i)) continue;
        if (s.kind == StepKind::copy) {
          events.push_back({r, r, i, i});
          continue;
        }
        const auto& theirs = rank(s.peer).steps;
        for (std::size_t j = 0; j < theirs.size(); ++j) {
          if (theirs[j].kind == StepKind::recv && theirs[j].peer == r && theirs[j].channel == s.channel &&
              open(s.peer, j)) {
            events.push_back({r, s.peer, i, j});
          }
        }
      }
    }
    return events;
  }

  std::uint8_t* address(int r, const Segment& s) {
    Memory& m = memory(r);
    if (s.buffer == Buffer::scratch) return m.scratch.data() + s.offset;
    auto& blocks = s.buffer == Buffer::send ? m.send : m.recv;
    return blocks[static_cast<std::size_t>(s.block)].data() + s.offset;
  }

  void move(const Event& e) {
    std::vector<std::uint8_t> message;
    for (const Segment& s : rank(e.from).from(rank(e.from).steps[e.send])) {
      message.insert(message.end(), address(e.from, s), address(e.from, s) + s.bytes);
    }
    auto next = message.begin();
    for (const Segment& s : rank(e.to).to(rank(e.to).steps[e.recv])) {
      std::copy_n(next, s.bytes, address(e.to, s));
      next += static_cast<std::ptrdiff_t>(s.bytes);
    }
  }

  const Plan& plan_;
  const Counts& counts_;
  std::mt19937 random_;
  std::vector<Memory> memory_;
  std::vector<std::vector<bool>> done_;
};

}  // namespace tapa::test
