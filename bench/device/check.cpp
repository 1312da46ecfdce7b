// device_check: whether the device engine moves every byte, and what it does when a rank is gone.
//
//   device_check [--test random|graph|pair|strided|stores|misuse|dead|all] [--ranks N] [--iterations N]
//   [--seconds S]
//   [--most BYTES] [--seed N]
//
// Ranks are processes that take the GPUs in turn. Exit status 0: all is right; 77: there is no GPU.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "check_parts.hpp"

namespace tapa::bench {
namespace {

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
        Named{"strided", test_strided}, Named{"stores", test_stores}, Named{"misuse", test_misuse},
        Named{"dead", test_dead}}) {
    if (test != "all" && test != named.name) continue;
    if ((named.body == test_dead || named.body == test_misuse) && size < 2) continue;
    ++ran;
    failed += run_ranks(size, [&](Ranks& ranks) {
      take_device(ranks);
      return named.body(ranks, settings);
    });
  }
  if (ran == 0)
    throw std::runtime_error("--test is \"" + test +
                             "\", expected random, graph, pair, strided, stores, misuse, dead or all");
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
