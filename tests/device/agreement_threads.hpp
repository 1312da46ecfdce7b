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

/// Runs `body(agreement)` on each of `size` ranks.
template <class Body>
void as_ranks(int size, const Body& body) {
  Meeting meeting(size);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank me{&meeting, static_cast<std::size_t>(rank), static_cast<std::size_t>(size)};
      body(Agreement(rank, size, allgather, &me));
    });
  }
}

}  // namespace tapa::device
