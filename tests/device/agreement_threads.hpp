/// Threads as the ranks of an agreement.
#pragma once

#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include "device/agreement.hpp"

namespace tapa::device {

/// An allgather between threads.
struct Meeting {
  explicit Meeting(int size) : barrier(size), bytes(static_cast<std::size_t>(size) * 1024) {}
  std::barrier<> barrier;
  std::vector<char> bytes;
};
struct Rank {
  Meeting* meeting;
  std::size_t rank;
  std::size_t size;
};

inline int allgather(void* context, const void* mine, void* all, std::size_t bytes) {
  const Rank& me = *static_cast<Rank*>(context);
  std::memcpy(me.meeting->bytes.data() + me.rank * bytes, mine, bytes);
  me.meeting->barrier.arrive_and_wait();
  std::memcpy(all, me.meeting->bytes.data(), me.size * bytes);
  me.meeting->barrier.arrive_and_wait();
  return 0;
}

/// Runs `body(agreement)` on each of `size` ranks, whose allgather is `gather(rank, mine, all, bytes)`.
template <class Gather, class Body>
void as_ranks_by(int size, const Gather& gather, const Body& body) {
  struct Context {
    Rank me;
    const Gather* gather;
  };
  const auto call = [](void* context, const void* mine, void* all, std::size_t bytes) {
    Context& own = *static_cast<Context*>(context);
    return (*own.gather)(own.me, mine, all, bytes);
  };
  Meeting meeting(size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Context me{{&meeting, static_cast<std::size_t>(rank), static_cast<std::size_t>(size)}, &gather};
      body(Agreement(rank, size, call, &me));
    });
  }
}

/// Runs `body(agreement)` on each of `size` ranks.
template <class Body>
void as_ranks(int size, const Body& body) {
  const auto gather = [](Rank& me, const void* mine, void* all, std::size_t bytes) {
    return allgather(&me, mine, all, bytes);
  };
  as_ranks_by(size, gather, body);
}

}  // namespace tapa::device
