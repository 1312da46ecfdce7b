// device_check: stores by the caller's own kernels.
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "check_parts.hpp"

namespace tapa::bench {

namespace {

constexpr std::uint8_t kPoison = 0xee;

/// A window of all ranks, with a part for each rank that stores.
class Target {
 public:
  Target(Ranks& ranks, TAPA_Device_comm comm, std::size_t part)
      : comm_(comm), part_(part), memory_(part * static_cast<std::size_t>(ranks.size())) {
    tapa_call(TAPA_Device_register(comm, memory_.get(), memory_.bytes(), 0, &window_));
    for (int rank = 0; rank < ranks.size(); ++rank) {
      void* there = nullptr;
      tapa_call(TAPA_Device_peer_memory(comm, window_, rank, &there));
      peers_.push_back(static_cast<char*>(there));
    }
  }
  ~Target() { (void)TAPA_Device_deregister(comm_, window_); }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  [[nodiscard]] int window() const { return window_; }
  [[nodiscard]] std::size_t part() const { return part_; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  /// Where this rank stores at `rank`.
  [[nodiscard]] char* at(int rank, int own) const {
    return peers_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(own) * part_;
  }

 private:
  TAPA_Device_comm comm_;
  std::size_t part_;
  Memory memory_;
  int window_ = -1;
  std::vector<char*> peers_;
};

/// Bytes that one rank stores at another: what both compute.
std::size_t stored_bytes(std::size_t part, int from, int to, int iteration) {
  std::minstd_rand random(static_cast<unsigned>(iteration * 4096 + from * 64 + to) + 3U);
  random.discard(4);
  return random() % 4 == 0 ? 0 : random() % (part + 1);
}

/// Every rank's kernel stores at every rank; all is checked; on the stream.
void store_and_check(const Ranks& ranks, TAPA_Device_comm comm, const Target& target, const Stream& stream,
                     int iteration, const Wrong& wrong, const Round* round, std::uint64_t delay_ns) {
  cuda(cudaMemsetAsync(target.memory().get(), kPoison, target.memory().bytes(), stream.get()),
       "cudaMemsetAsync");
  delay(delay_ns, stream.get());
  tapa_call(TAPA_Device_begin_stores(comm, target.window(), stream.get()));
  for (int step = 0; step < ranks.size(); ++step) {
    const int peer = (ranks.rank() + step) % ranks.size();
    fill(target.at(peer, ranks.rank()), stored_bytes(target.part(), ranks.rank(), peer, iteration),
         seed_of(ranks.rank(), peer, iteration), round, stream.get());
  }
  delay(delay_ns / 2, stream.get());
  tapa_call(TAPA_Device_end_stores(comm, target.window(), stream.get()));
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const std::size_t bytes = stored_bytes(target.part(), peer, ranks.rank(), iteration);
    const char* const from = target.memory().get() + static_cast<std::size_t>(peer) * target.part();
    count_wrong(from, bytes, seed_of(peer, ranks.rank(), iteration), round, wrong.get(), stream.get());
    count_others(from + bytes, target.part() - bytes, kPoison, wrong.get(), stream.get());
  }
  cuda(cudaGetLastError(), "a launch");
}

/// Stores and all-to-alls of each way recorded in a graph.
void replay_stores(const Settings& settings, Ranks& ranks, TAPA_Device_comm comm, const Target& target,
                   const Stream& stream, const Wrong& wrong) {
  const Memory round(sizeof(Round));
  cuda(cudaMemset(round.get(), 0, round.bytes()), "cudaMemset");
  auto* const number = reinterpret_cast<Round*>(round.get());
  const Buffers buffers(settings, ranks, comm, true);
  const Graph graph(stream, [&] {
    next_round(number, stream.get());
    for (int call = 0; call < 3; ++call) {
      store_and_check(ranks, comm, target, stream, 2000000 + call, wrong, number, 0);
      exchange(settings, ranks, buffers, comm, stream, 2000000 + call, wrong, 0);
    }
  });
  for (int replay = 0; replay < 50; ++replay) graph.launch(stream);
  stream.wait();
}

}  // namespace

int test_stores(Ranks& ranks, const Settings& settings) {
  const Comm comm(ranks, long_timeout(settings));
  const Stream stream;
  const Wrong wrong;
  Settings small = settings;
  small.most = std::min<std::size_t>(settings.most, 2 << 20);
  const auto began = std::chrono::steady_clock::now();
  const Target targets[] = {{ranks, comm.get(), 300001}, {ranks, comm.get(), 4096}};
  const Buffers buffers(small, ranks, comm.get(), true);
  std::minstd_rand random(settings.seed * 3 + static_cast<unsigned>(ranks.rank()));
  int iteration = 0;
  for (; iteration < settings.iterations; ++iteration) {
    if (iteration % 50 == 0 && ranks.first_says(since(began) > settings.seconds)) break;
    if (random() % 50 == 0) usleep(static_cast<useconds_t>(random() % 300));
    const std::uint64_t delay_ns = random() % 10 == 0 ? random() % 100000 : 0;
    store_and_check(ranks, comm.get(), targets[iteration % 2], stream, iteration, wrong, nullptr, delay_ns);
    if (iteration % 3 == 0) exchange(small, ranks, buffers, comm.get(), stream, iteration, wrong, 0);
  }
  replay_stores(small, ranks, comm.get(), targets[0], stream, wrong);
  const unsigned long long count = wrong.value(stream);
  tapa_call(TAPA_Device_query(comm.get(), nullptr));
  return verdict(ranks, "stores", iteration, count, since(began));
}

}  // namespace tapa::bench
