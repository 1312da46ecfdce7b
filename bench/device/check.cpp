// device_check: whether the device engine moves every byte, and what it does when a rank is gone.
//
//   device_check [--test random|graph|pair|misuse|dead|all] [--ranks N] [--iterations N] [--seconds S]
//   [--most BYTES] [--seed N]
//
// Ranks are processes that take the GPUs in turn. Exit status 0: all is right; 77: there is no GPU.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "gpu.hpp"
#include "pattern.hpp"

namespace tapa::bench {
namespace {

struct Settings {
  int iterations;
  double seconds;
  std::size_t most;
  unsigned seed;
};

double since(std::chrono::steady_clock::time_point began) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

/// Bytes that one rank sends to another in an iteration: what both compute.
std::size_t block_bytes(const Settings& settings, int from, int to, int iteration) {
  std::minstd_rand random(settings.seed + static_cast<unsigned>(iteration * 4096 + from * 64 + to));
  random.discard(4);
  const auto kind = random() % 100;
  const std::size_t limits[] = {65, 8 << 10, 512 << 10, 4 << 20, settings.most + 1};
  if (kind < 15) return 0;
  const int which = kind < 35 ? 0 : kind < 55 ? 1 : kind < 85 ? 2 : kind < 99 ? 3 : 4;
  return random() % std::min(limits[which], settings.most + 1);
}

/// The blocks of one rank in one iteration, at odd places with gaps.
struct Blocks {
  std::vector<std::size_t> send_bytes, send_at, receive_bytes, receive_at;
  std::size_t received_extent = 0;
};

Blocks blocks_of(const Settings& settings, const Ranks& ranks, int iteration) {
  std::minstd_rand random(settings.seed * 77 + static_cast<unsigned>(iteration * 64 + ranks.rank()));
  const auto gap = [&] { return random() % 3 == 0 ? random() % 41 : random() % 3 * 16; };
  Blocks blocks;
  std::size_t send = gap();
  std::size_t receive = gap();
  for (int peer = 0; peer < ranks.size(); ++peer) {
    blocks.send_bytes.push_back(block_bytes(settings, ranks.rank(), peer, iteration));
    blocks.receive_bytes.push_back(block_bytes(settings, peer, ranks.rank(), iteration));
    blocks.send_at.push_back(send);
    blocks.receive_at.push_back(receive);
    send += blocks.send_bytes.back() + gap();
    receive += blocks.receive_bytes.back() + gap();
  }
  blocks.received_extent = receive;
  return blocks;
}

std::uint64_t seed_of(int from, int to, int iteration) {
  return (static_cast<std::uint64_t>(iteration) * 64 + static_cast<std::uint64_t>(from)) * 64 +
         static_cast<std::uint64_t>(to);
}

/// A count of wrong bytes in device memory.
class Wrong {
 public:
  Wrong() : memory_(sizeof(unsigned long long)) {
    cuda(cudaMemset(memory_.get(), 0, memory_.bytes()), "cudaMemset");
    cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  [[nodiscard]] unsigned long long* get() const {
    return reinterpret_cast<unsigned long long*>(memory_.get());
  }
  [[nodiscard]] unsigned long long value(const Stream& stream) const {
    unsigned long long value = 0;
    cuda(cudaMemcpyAsync(&value, get(), sizeof(value), cudaMemcpyDeviceToHost, stream.get()),
         "cudaMemcpyAsync");
    stream.wait();
    return value;
  }

 private:
  Memory memory_;
};

/// Send and receive buffers with a registration, or none.
class Buffers {
 public:
  Buffers(const Settings& settings, const Ranks& ranks, TAPA_Device_comm comm, bool registered, int flags = 0)
      : send_(extent(settings, ranks)), receive_(extent(settings, ranks)), comm_(comm) {
    if (registered) tapa_call(TAPA_Device_register(comm, receive_.get(), receive_.bytes(), flags, &window_));
  }
  ~Buffers() {
    if (window_ >= 0) (void)TAPA_Device_deregister(comm_, window_);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  [[nodiscard]] char* send() const { return send_.get(); }
  [[nodiscard]] char* receive() const { return receive_.get(); }

 private:
  static std::size_t extent(const Settings& settings, const Ranks& ranks) {
    return (settings.most + 64) * static_cast<std::size_t>(ranks.size()) + 64;
  }
  Memory send_;
  Memory receive_;
  TAPA_Device_comm comm_;
  int window_ = -1;
};

constexpr std::uint8_t kPoison = 0xee;

/// One all-to-all-v with its filling and checking, all on the stream.
void exchange(const Settings& settings, const Ranks& ranks, const Buffers& buffers, TAPA_Device_comm comm,
              const Stream& stream, int iteration, const Wrong& wrong, std::uint64_t delay_ns) {
  const Blocks blocks = blocks_of(settings, ranks, iteration);
  cuda(cudaMemsetAsync(buffers.receive(), kPoison, blocks.received_extent, stream.get()), "cudaMemsetAsync");
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    fill(buffers.send() + blocks.send_at[p], blocks.send_bytes[p], seed_of(ranks.rank(), peer, iteration),
         nullptr, stream.get());
  }
  delay(delay_ns, stream.get());
  tapa_call(TAPA_Device_alltoallv(buffers.send(), blocks.send_bytes.data(), blocks.send_at.data(),
                                  buffers.receive(), blocks.receive_bytes.data(), blocks.receive_at.data(),
                                  comm, stream.get()));
  std::size_t end = 0;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    count_others(buffers.receive() + end, blocks.receive_at[p] - end, kPoison, wrong.get(), stream.get());
    count_wrong(buffers.receive() + blocks.receive_at[p], blocks.receive_bytes[p],
                seed_of(peer, ranks.rank(), iteration), nullptr, wrong.get(), stream.get());
    end = blocks.receive_at[p] + blocks.receive_bytes[p];
  }
  count_others(buffers.receive() + end, blocks.received_extent - end, kPoison, wrong.get(), stream.get());
  cuda(cudaGetLastError(), "a launch");
}

int verdict(Ranks& ranks, const char* test, int iterations, unsigned long long wrong, double seconds) {
  unsigned long long all = 0;
  for (const unsigned long long each : ranks.gather(wrong)) all += each;
  if (ranks.rank() == 0) {
    std::printf("%-8s %d ranks, %6d iterations, %6.1f s: %s", test, ranks.size(), iterations, seconds,
                all == 0 ? "right\n" : "WRONG");
    if (all != 0) std::printf(", %llu bytes\n", all);
    std::fflush(stdout);
  }
  return all == 0 ? 0 : 1;
}

TAPA_Device_options patient() {
  TAPA_Device_options options{};
  options.timeout = 20;
  return options;
}

/// Random blocks, registered and not, with delays of streams and hosts; buffers are freed and allocated anew.
int test_random(Ranks& ranks, const Settings& settings) {
  const Comm comm(ranks, patient());
  const Stream stream;
  const Wrong wrong;
  std::minstd_rand random(settings.seed * 3 + static_cast<unsigned>(ranks.rank()));
  const auto began = std::chrono::steady_clock::now();
  std::unique_ptr<Buffers> buffers;
  int iteration = 0;
  for (; iteration < settings.iterations; ++iteration) {
    if (iteration % 100 == 0) {
      if (ranks.first_says(since(began) > settings.seconds)) break;
      stream.wait();
      buffers.reset();
      buffers = std::make_unique<Buffers>(settings, ranks, comm.get(), iteration / 100 % 3 != 2);
    }
    if (random() % 50 == 0) usleep(static_cast<useconds_t>(random() % 300));
    const std::uint64_t delay_ns = random() % 10 == 0 ? random() % 100000 : 0;
    exchange(settings, ranks, *buffers, comm.get(), stream, iteration, wrong, delay_ns);
  }
  const unsigned long long count = wrong.value(stream);
  tapa_call(TAPA_Device_query(comm.get(), nullptr));
  buffers.reset();
  return verdict(ranks, "random", iteration, count, since(began));
}

/// A graph with calls of each way, replayed; what is sent differs in each replay.
int test_graph(Ranks& ranks, const Settings& settings) {
  TAPA_Device_options options = patient();
  options.copy_bytes = 1 << 20;
  const Comm comm(ranks, options);
  const Stream stream;
  const Wrong wrong;
  const Memory round(sizeof(Round));
  cuda(cudaMemset(round.get(), 0, round.bytes()), "cudaMemset");
  auto* const number = reinterpret_cast<Round*>(round.get());
  const auto size = static_cast<std::size_t>(ranks.size());
  const std::vector<std::size_t> sizes = {8, 5000, 256 << 10, 3 << 20};
  Settings one = settings;
  one.most = sizes.back();
  const Buffers staged(one, ranks, comm.get(), false);
  const Buffers direct(one, ranks, comm.get(), true);
  const Buffers symmetric(one, ranks, comm.get(), true, TAPA_DEVICE_SYMMETRIC);
  const Graph graph(stream, [&] {
    next_round(number, stream.get());
    for (const Buffers* buffers : {&staged, &direct, &symmetric}) {
      for (const std::size_t bytes : sizes) {
        for (std::size_t peer = 0; peer < size; ++peer) {
          fill(buffers->send() + peer * bytes, bytes, seed_of(ranks.rank(), static_cast<int>(peer), 1),
               number, stream.get());
        }
        tapa_call(TAPA_Device_alltoall(buffers->send(), buffers->receive(), bytes, comm.get(), stream.get()));
        for (std::size_t peer = 0; peer < size; ++peer) {
          count_wrong(buffers->receive() + peer * bytes, bytes,
                      seed_of(static_cast<int>(peer), ranks.rank(), 1), number, wrong.get(), stream.get());
        }
      }
    }
  });
  const auto began = std::chrono::steady_clock::now();
  int replay = 0;
  for (; replay < settings.iterations; ++replay) {
    if (replay % 50 == 0 && ranks.first_says(since(began) > settings.seconds)) break;
    graph.launch(stream);
  }
  const unsigned long long count = wrong.value(stream);
  tapa_call(TAPA_Device_query(comm.get(), nullptr));
  return verdict(ranks, "graph", replay, count, since(began));
}

/// Two communicators on two streams at once; half of the ranks call them in the other order.
int test_pair(Ranks& ranks, const Settings& settings) {
  const Comm comms[2] = {{ranks, patient()}, {ranks, patient()}};
  const Stream streams[2];
  const Wrong wrong[2];
  Settings small = settings;
  small.most = std::min<std::size_t>(settings.most, 4 << 20);
  const Buffers buffers[2] = {{small, ranks, comms[0].get(), true}, {small, ranks, comms[1].get(), false}};
  const auto began = std::chrono::steady_clock::now();
  int iteration = 0;
  for (; iteration < settings.iterations; ++iteration) {
    if (iteration % 50 == 0 && ranks.first_says(since(began) > settings.seconds)) break;
    for (const int turn : {0, 1}) {
      const int which = (turn + ranks.rank()) % 2;
      exchange(small, ranks, buffers[which], comms[which].get(), streams[which], iteration * 2 + which,
               wrong[which], 0);
    }
  }
  const unsigned long long count = wrong[0].value(streams[0]) + wrong[1].value(streams[1]);
  for (const Comm& comm : comms) tapa_call(TAPA_Device_query(comm.get(), nullptr));
  return verdict(ranks, "pair", iteration, count, since(began));
}

/// The last rank leaves after some calls; the others learn its name within the time-out.
int test_dead(Ranks& ranks, const Settings& settings) {
  TAPA_Device_options options{};
  options.timeout = 2;
  options.struct_size = sizeof(options);
  TAPA_Device_comm comm = TAPA_DEVICE_COMM_NULL;
  tapa_call(TAPA_Device_comm_create(ranks.rank(), ranks.size(), Ranks::allgather_for_tapa, &ranks, &options,
                                    &comm));
  const Stream stream;
  const Wrong wrong;
  Settings small = settings;
  small.most = 1 << 20;
  const Buffers buffers(small, ranks, comm, false);
  for (int iteration = 0; iteration < 10; ++iteration) {
    exchange(small, ranks, buffers, comm, stream, iteration, wrong, 0);
  }
  stream.wait();
  ranks.barrier();
  const int victim = ranks.size() - 1;
  if (ranks.rank() == victim) _exit(0);
  const auto began = std::chrono::steady_clock::now();
  exchange(small, ranks, buffers, comm, stream, 10, wrong, 0);
  stream.wait();
  const double seconds = since(began);
  int named = -2;
  const int code = TAPA_Device_query(comm, &named);
  const bool right = code == TAPA_DEVICE_ERR_TIMEOUT && named == victim && seconds < 10;
  if (ranks.rank() == 0 || !right) {
    std::printf("dead     %d ranks: after %.1f s rank %d says \"%s\": %s\n", ranks.size(), seconds,
                ranks.rank(), TAPA_Device_last_error(), right ? "right" : "WRONG");
  }
  const bool refused = TAPA_Device_alltoall(buffers.send(), buffers.receive(), 8, comm, stream.get()) ==
                       TAPA_DEVICE_ERR_TIMEOUT;
  (void)TAPA_Device_comm_free(&comm);
  return right && refused ? 0 : 1;
}

/// Counts what is not as it should be.
class Expectations {
 public:
  explicit Expectations(const Ranks& ranks) : rank_(ranks.rank()) {}
  /// An error of this code whose text holds `text`.
  void error(int code, int expected, const char* text) {
    if (code == expected && std::strstr(TAPA_Device_last_error(), text) != nullptr) return;
    std::printf("rank %d: code %d and \"%s\", expected %d and \"%s\": WRONG\n", rank_, code,
                TAPA_Device_last_error(), expected, text);
    ++wrong_;
  }
  void that(bool right, const char* what) {
    if (right) return;
    std::printf("rank %d: %s: WRONG\n", rank_, what);
    ++wrong_;
  }
  [[nodiscard]] unsigned long long wrong() const { return wrong_; }

 private:
  int rank_;
  unsigned long long wrong_ = 0;
};

void expect_argument_errors(Ranks& ranks, TAPA_Device_comm comm, Expectations& expect) {
  const Stream stream;
  const auto size = static_cast<std::size_t>(ranks.size());
  const Memory memory(size * 64);
  std::vector<char> host(size * 64);
  expect.error(TAPA_Device_alltoall(host.data(), memory.get(), 64, comm, stream.get()), TAPA_DEVICE_ERR_ARG,
               "sendbuf is memory of the host");
  expect.error(TAPA_Device_alltoall(memory.get(), nullptr, 64, comm, stream.get()), TAPA_DEVICE_ERR_ARG,
               "recvbuf is null");
  expect.error(TAPA_Device_alltoall(memory.get(), memory.get() + 32, 64, comm, stream.get()),
               TAPA_DEVICE_ERR_ARG, "overlap");
  int window = -1;
  expect.error(TAPA_Device_register(comm, memory.get(), size * 64, ranks.rank(), &window),
               TAPA_DEVICE_ERR_ARG, "flags of rank 1 is 1");
  expect.error(TAPA_Device_register(comm, memory.get(), size * 64 - static_cast<std::size_t>(ranks.rank()),
                                    TAPA_DEVICE_SYMMETRIC, &window),
               TAPA_DEVICE_ERR_ARG, "bytes of rank 1 is");
  expect.error(TAPA_Device_register(comm, ranks.rank() == 0 ? nullptr : memory.get(), 64, 0, &window),
               TAPA_DEVICE_ERR_ARG, "rank 0: buffer is null and bytes is 64");
  expect.error(TAPA_Device_deregister(comm, 5), TAPA_DEVICE_ERR_ARG, "window is 5");
  tapa_call(TAPA_Device_alltoall(memory.get(), memory.get(), 0, comm, stream.get()));
  stream.wait();
}

/// Registered memory of cudaMallocAsync cannot be shared, and is none the less right.
void expect_staging_of_pools(Ranks& ranks, TAPA_Device_comm comm, Expectations& expect) {
  const Stream stream;
  const Wrong wrong;
  const std::size_t bytes = 1 << 20;
  const auto size = static_cast<std::size_t>(ranks.size());
  const Memory send(size * bytes);
  void* receive = nullptr;
  cuda(cudaMallocAsync(&receive, size * bytes, stream.get()), "cudaMallocAsync");
  stream.wait();
  int window = -1;
  int direct = -1;
  tapa_call(TAPA_Device_register(comm, receive, size * bytes, 0, &window));
  tapa_call(TAPA_Device_is_direct(comm, window, &direct));
  expect.that(direct == 0, "memory of a pool counts as shared");
  for (std::size_t peer = 0; peer < size; ++peer) {
    fill(send.get() + peer * bytes, bytes, seed_of(ranks.rank(), static_cast<int>(peer), 7), nullptr,
         stream.get());
  }
  tapa_call(TAPA_Device_alltoall(send.get(), receive, bytes, comm, stream.get()));
  for (std::size_t peer = 0; peer < size; ++peer) {
    count_wrong(static_cast<char*>(receive) + peer * bytes, bytes,
                seed_of(static_cast<int>(peer), ranks.rank(), 7), nullptr, wrong.get(), stream.get());
  }
  expect.that(wrong.value(stream) == 0, "wrong bytes in memory of a pool");
  tapa_call(TAPA_Device_deregister(comm, window));
  cuda(cudaFreeAsync(receive, stream.get()), "cudaFreeAsync");
  stream.wait();
}

/// A graph that is replayed after a registration has ended; then ranks at different offsets of a symmetric
/// one.
void expect_window_errors(Ranks& ranks, bool symmetric, Expectations& expect) {
  TAPA_Device_options options{};
  options.timeout = 2;
  options.copy_bytes = 1 << 20;
  const Comm comm(ranks, options);
  const Stream stream;
  const std::size_t bytes = 1 << 20;
  const auto size = static_cast<std::size_t>(ranks.size());
  const Memory send(size * bytes);
  const Memory receive(size * bytes + 4096);
  int window = -1;
  tapa_call(TAPA_Device_register(comm.get(), receive.get(), receive.bytes(),
                                 symmetric ? TAPA_DEVICE_SYMMETRIC : 0, &window));
  char* const at = receive.get() + (symmetric && ranks.rank() == 1 ? 4096 : 0);
  const Graph graph(
      stream, [&] { tapa_call(TAPA_Device_alltoall(send.get(), at, bytes, comm.get(), stream.get())); });
  if (!symmetric) {
    graph.launch(stream);
    stream.wait();
    tapa_call(TAPA_Device_query(comm.get(), nullptr));
    tapa_call(TAPA_Device_deregister(comm.get(), window));
  }
  ranks.barrier();
  graph.launch(stream);
  stream.wait();
  expect.error(TAPA_Device_query(comm.get(), nullptr), TAPA_DEVICE_ERR_WINDOW,
               symmetric ? "receives at another offset of a symmetric registration"
                         : "receives in memory whose registration is gone");
  ranks.barrier();  // nobody frees what others may still write to
}

/// Wrong arguments and broken rules: errors that say what is wrong, and no crash.
int test_misuse(Ranks& ranks, const Settings&) {
  const auto began = std::chrono::steady_clock::now();
  Expectations expect(ranks);
  {
    const Comm comm(ranks, patient());
    expect_argument_errors(ranks, comm.get(), expect);
    expect_staging_of_pools(ranks, comm.get(), expect);
  }
  expect_window_errors(ranks, false, expect);
  expect_window_errors(ranks, true, expect);
  return verdict(ranks, "misuse", 1, expect.wrong(), since(began));
}

/// Asked in a process of its own: one that has used CUDA cannot fork ranks that use it.
bool has_gpu() {
  return run_ranks(1, [](Ranks&) {
           int devices = 0;
           return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 ? 0 : 1;
         }) == 0;
}

int run(const Arguments& arguments) {
  Settings settings{};
  settings.iterations = static_cast<int>(arguments.number("iterations", 1000));
  settings.seconds = arguments.number("seconds", 30);
  settings.most = static_cast<std::size_t>(arguments.number("most", 64 << 20));
  settings.seed = static_cast<unsigned>(arguments.number("seed", 1));
  const int size = static_cast<int>(arguments.number("ranks", 2));
  const std::string test = arguments.text("test", "all");
  struct Named {
    const char* name;
    int (*body)(Ranks&, const Settings&);
  };
  int failed = 0;
  int ran = 0;
  for (const Named& named :
       {Named{"random", test_random}, Named{"graph", test_graph}, Named{"pair", test_pair},
        Named{"misuse", test_misuse}, Named{"dead", test_dead}}) {
    if (test != "all" && test != named.name) continue;
    if ((named.body == test_dead || named.body == test_misuse) && size < 2) continue;
    ++ran;
    failed += run_ranks(size, [&](Ranks& ranks) {
      take_device(ranks);
      return named.body(ranks, settings);
    });
  }
  if (ran == 0)
    throw std::runtime_error("--test is \"" + test + "\", expected random, graph, pair, misuse, dead or all");
  return failed;
}

}  // namespace
}  // namespace tapa::bench

int main(int argc, char** argv) {
  // CUDA loads kernels when they are first used, and may wait for the device to do so: for a call that waits
  // for a rank that does the same.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  try {
    if (!tapa::bench::has_gpu()) {
      std::printf("device_check: skipped, no GPU here\n");
      return 77;
    }
    return tapa::bench::run(tapa::bench::Arguments(argc, argv)) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_check: %s\n", error.what());
    return 2;
  }
}
