// device_check: whether the device engine moves every byte, and what it does when a rank is gone; its usage
// is at the end.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "check_parts.hpp"
#include "plain_flags.h"

namespace tapa::bench {
namespace {

/// Random blocks, registered and not, with delays of streams and hosts; buffers are freed and allocated anew.
int test_random(Ranks& ranks, const Settings& settings) {
  const Comm comm(ranks, long_timeout(settings));
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

/// Equal blocks of random sizes, buffers registered and not.
int test_equal(Ranks& ranks, const Settings& settings) {
  const Comm comm(ranks, long_timeout(settings));
  const Stream stream;
  const Wrong wrong;
  const Buffers registered(settings, ranks, comm.get(), true);
  const Buffers staged(settings, ranks, comm.get(), false);
  if (ranks.rank() == 0) std::printf("equal    %s\n", described(comm.get()));
  std::minstd_rand random(settings.seed * 5 + 1);  // alike on all ranks
  const auto began = std::chrono::steady_clock::now();
  int iteration = 0;
  for (; iteration < settings.iterations; ++iteration) {
    if (iteration % 20 == 0 && ranks.first_says(since(began) > settings.seconds)) break;
    const std::size_t limits[] = {1, 100, 8 << 10, 1 << 20, settings.most};
    const std::size_t most = std::min(limits[random() % 100 < 4 ? 4 : random() % 4], settings.most);
    const std::size_t bytes = random() % (most + 1);
    exchange_equal(ranks, random() % 2 == 0 ? registered : staged, comm.get(), stream, bytes, iteration,
                   wrong);
  }
  const unsigned long long count = wrong.value(stream);
  tapa_call(TAPA_Device_query(comm.get(), nullptr));
  return verdict(ranks, "equal", iteration, count, since(began));
}

/// A graph with calls of each way, replayed; what is sent differs in each replay.
int test_graph(Ranks& ranks, const Settings& settings) {
  TAPA_Device_options options = long_timeout(settings);
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

/// Blocks that copy engines move, of sizes around where they begin, one by one and in a graph.
int test_copies(Ranks& ranks, const Settings& settings) {
  const Comm comm(ranks, long_timeout(settings));
  const Stream stream;
  const Wrong wrong;
  constexpr std::size_t kBegin = 32 << 20;  // the default of TAPA_Device_options.copy_bytes
  Settings large = settings;
  large.most = 2 * kBegin + 4096;
  const Buffers buffers(large, ranks, comm.get(), true, TAPA_DEVICE_SYMMETRIC);
  const std::size_t sizes[] = {kBegin, kBegin + 1, kBegin - 16, 2 * kBegin, kBegin + (kBegin >> 2) + 40};
  const auto began = std::chrono::steady_clock::now();
  int iteration = 0;
  for (; iteration < settings.iterations; ++iteration) {
    if (iteration % 5 == 0 && ranks.first_says(since(began) > settings.seconds)) break;
    exchange_equal(ranks, buffers, comm.get(), stream, sizes[iteration % 5], iteration, wrong);
  }
  const Graph graph(stream, [&] {
    for (const std::size_t bytes : sizes) {
      exchange_equal(ranks, buffers, comm.get(), stream, bytes, iteration++, wrong);
    }
  });
  for (int replay = 0; replay < 3; ++replay) graph.launch(stream);
  const unsigned long long count = wrong.value(stream);
  tapa_call(TAPA_Device_query(comm.get(), nullptr));
  return verdict(ranks, "copies", iteration, count, since(began));
}

/// Two communicators on two streams at once; half of the ranks call them in the other order.
int test_pair(Ranks& ranks, const Settings& settings) {
  const Comm comms[2] = {{ranks, long_timeout(settings)}, {ranks, long_timeout(settings)}};
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
  options.wire = settings.wire;
  tapa_call(ranks.create(options, &comm));
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
  if (ranks.rank() == victim) {
    ranks.leave(8);
    // Where it still lives, it comes too late, and learns that the others are gone.
    for (const int late : {10, 11}) exchange(small, ranks, buffers, comm, stream, late, wrong, 0);
    stream.wait();
    (void)TAPA_Device_comm_free(&comm);
    return 0;
  }
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
  settings.wire = static_cast<int>(arguments.number("wire", 0));
  settings.channels = static_cast<int>(arguments.number("channels", 0));
  const int size = static_cast<int>(arguments.number("ranks", 2));
  const std::string nodes = arguments.text("nodes", "");
  const std::string test = arguments.text("test", "all");
  struct Named {
    const char* name;
    int (*body)(Ranks&, const Settings&);
  };
  int failed = 0;
  int ran = 0;
  for (const Named& named :
       {Named{"random", test_random}, Named{"equal", test_equal}, Named{"graph", test_graph},
        Named{"copies", test_copies}, Named{"pair", test_pair}, Named{"strided", test_strided},
        Named{"stores", test_stores}, Named{"segments", test_segments}, Named{"freed", test_freed},
        Named{"misuse", test_misuse}, Named{"callers", test_callers}, Named{"dead", test_dead},
        Named{"left", test_left}}) {
    if (test != "all" && test != named.name) continue;
    const bool alone = named.body != test_dead && named.body != test_left && named.body != test_misuse;
    if (size < 2 && !alone) continue;
    ++ran;
    failed += run_ranks(size, [&](Ranks& ranks) {
      take_device(ranks.rank());
      label_node(ranks.rank(), nodes);
      return named.body(ranks, settings);
    });
  }
  if (ran == 0)
    throw std::runtime_error("--test is \"" + test +
                             "\", expected random, equal, graph, copies, pair, strided, stores, segments, "
                             "freed, misuse, callers, dead, left or all");
  return failed;
}

}  // namespace
}  // namespace tapa::bench

constexpr char kUsage[] =
    R"(usage: device_check [--test random|equal|graph|copies|pair|strided|stores|segments|freed|misuse|callers|
  dead|left|all] [--ranks N] [--iterations N] [--seconds S] [--most BYTES] [--seed N] [--channels N] [--nodes N+N...] [--wire N]

Whether the device engine moves every byte, and what it does when a rank is gone.
--channels: thread blocks for each rank at most; --nodes: ranks of each of the nodes that this machine
stands for; --wire: a TAPA_DEVICE_WIRE.
Ranks are processes that take the GPUs in turn; device_check_mpi is the same with MPI's ranks. Exit status
0: all is right; 77: there is no GPU.
)";

int main(int argc, char** argv) {
  const int status = plain_flags(argc, argv, kUsage);
  if (status >= 0) return status;
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
