/// @file
/// What the copies of an all-to-all in shared memory cost on this machine, apart from all else: processes, a
/// core each, that write their blocks where the others see them and read the others', one way of copying or
/// another.
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "version_flag.hpp"

namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kRegion =
    std::size_t{8} << 20;  // bytes of a rank: two buffers, and its blocks for ways that copy once
constexpr std::size_t kBuffer = kRegion / 4;
constexpr std::size_t kMost = 256;

struct alignas(128) Flag {
  std::atomic<std::uint64_t> round;
};
struct alignas(128) Times {
  double all, write, wait, read;
};
struct Shared {
  std::array<Flag, kMost> written, here;
  std::array<Times, kMost> times;
  std::array<pid_t, kMost> pids;
};

struct Rank {
  Shared* shared;
  std::vector<std::byte*> region;
  std::size_t self, ranks, bytes;
  std::byte* send;
  std::byte* recv;
  std::uint64_t round = 0;

  [[nodiscard]] std::byte* buffer(std::size_t member, std::uint64_t at) const {
    return region[member] + (at & 1) * kBuffer + member % 32 * 128;
  }
  [[nodiscard]] const std::byte* block_of(std::size_t member) const {
    return buffer(member, round) + self * bytes;
  }
};

using Write = void (*)(Rank&);
using Read = void (*)(Rank&);

template <typename Do>
void each_other(const Rank& r, const Do& call) {
  for (std::size_t i = 1; i < r.ranks; ++i) call((r.self + i) % r.ranks);
}

void write_memcpy(Rank& r) {
  std::memcpy(r.buffer(r.self, r.round), r.send, r.ranks * r.bytes);
}
void write_nothing(Rank&) {}

void read_memcpy(Rank& r) {
  each_other(r, [&](std::size_t m) { std::memcpy(r.recv + m * r.bytes, r.block_of(m), r.bytes); });
}
void read_sources(Rank& r) {  // straight out of what the others send
  each_other(r, [&](std::size_t m) {
    std::memcpy(r.recv + m * r.bytes, r.region[m] + 2 * kBuffer + r.self * r.bytes, r.bytes);
  });
}
void read_attach(Rank& r) {
  each_other(r, [&](std::size_t m) {
    const iovec here{r.recv + m * r.bytes, r.bytes};
    const iovec there{r.region[m] + 2 * kBuffer + r.self * r.bytes, r.bytes};
    if (process_vm_readv(r.shared->pids[m], &here, 1, &there, 1, 0) < 0) std::abort();
  });
}

#if defined(__x86_64__)
void take_lines(const std::byte* begin, std::size_t bytes) {  // for writing
  for (std::size_t at = 0; at < bytes; at += kLine) asm volatile("prefetchw %0" ::"m"(begin[at]));
}

void write_ahead(Rank& r) {
  constexpr std::size_t ahead = 16 * kLine;
  std::byte* const to = r.buffer(r.self, r.round);
  for (std::size_t at = 0; at < r.ranks * r.bytes; at += kLine) {
    asm volatile("prefetchw %0" ::"m"(to[at + ahead]));
    std::memcpy(to + at, r.send + at, kLine);
  }
}

/// Lines of the next round's buffer, which the others do not read any more.
void read_then_take(Rank& r) {
  read_memcpy(r);
  take_lines(r.buffer(r.self, r.round + 1), r.ranks * r.bytes);
}
#endif

/// All blocks are one stream: the line so many lines ahead is asked for, also of the next block.
void read_stream(Rank& r) {
  const std::size_t ahead = std::min(12 * kLine, r.bytes);
  for (std::size_t i = 1; i < r.ranks; ++i) {
    const std::size_t m = (r.self + i) % r.ranks;
    const std::byte* const from = r.block_of(m);
    const std::byte* const next = r.block_of(i + 1 < r.ranks ? (m + 1) % r.ranks : m);
    const std::size_t turn = r.bytes - ahead;
    for (std::size_t at = 0; at < r.bytes; at += kLine) {
      __builtin_prefetch(at < turn ? from + at + ahead : next + (at - turn));
      std::memcpy(r.recv + m * r.bytes + at, from + at, kLine);
    }
  }
}

/// Who has read a place writes there next: in even rounds a rank's blocks lie in its own buffer, in odd ones
/// in the readers'.
std::byte* slot(const Rank& r, std::size_t from, std::size_t to) {
  const std::size_t owner = r.round % 2 == 0 ? from : to;
  return r.buffer(owner, 0) + (r.round % 2 == 0 ? to : from) * r.bytes;
}
void write_slots(Rank& r) {
  each_other(r, [&](std::size_t m) { std::memcpy(slot(r, r.self, m), r.send + m * r.bytes, r.bytes); });
}
void read_slots(Rank& r) {
  each_other(r, [&](std::size_t m) { std::memcpy(r.recv + m * r.bytes, slot(r, m, r.self), r.bytes); });
}
#if defined(__x86_64__)
void read_slots_taken(Rank& r) {
  each_other(r, [&](std::size_t m) {
    take_lines(slot(r, m, r.self), r.bytes);
    std::memcpy(r.recv + m * r.bytes, slot(r, m, r.self), r.bytes);
  });
}
#endif

struct Way {
  std::string name;
  Write write;
  Read read;
  bool fresh = false;  // what is sent is written anew in each round, in the others' sight
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all {
    {"buffers", write_memcpy, read_memcpy}, {"buffers-fresh", write_memcpy, read_memcpy, true},
        {"slots", write_slots, read_slots}, {"slots-fresh", write_slots, read_slots, true},
        {"once", write_nothing, read_sources}, {"once-fresh", write_nothing, read_sources, true},
        {"attach", write_nothing, read_attach}, {"attach-fresh", write_nothing, read_attach, true},
        {"flags", write_nothing, write_nothing}, {"read-stream", write_memcpy, read_stream},
#if defined(__x86_64__)
        {"write-ahead", write_ahead, read_memcpy}, {"read-then-take", write_memcpy, read_then_take},
        {"slots-taken", write_slots, read_slots_taken},
        {"slots-taken-fresh", write_slots, read_slots_taken, true},
#endif
  };
  return all;
}

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void await(std::array<Flag, kMost>& flags, std::size_t ranks, std::uint64_t round) {
  for (std::size_t m = 0; m < ranks; ++m) {
    for (int polls = 0; flags[m].round.load(std::memory_order_acquire) < round; ++polls) {
      if (polls > 2000) sched_yield();
    }
  }
}

/// Means of so many rounds.
Times rounds(Rank& r, const Way& way, int count) {
  Times sum{};
  for (int i = 0; i < count; ++i) {
    ++r.round;
    if (way.fresh) {
      // Behind a barrier, and before one: nobody reads the old data any more, and what this takes is not
      // timed.
      r.shared->here[r.self].round.store(2 * r.round, std::memory_order_release);
      await(r.shared->here, r.ranks, 2 * r.round);
      std::memset(r.send, static_cast<int>(r.round), r.ranks * r.bytes);
      r.shared->here[r.self].round.store(2 * r.round + 1, std::memory_order_release);
      await(r.shared->here, r.ranks, 2 * r.round + 1);
    }
    const double begin = now();
    way.write(r);
    const double written = now();
    r.shared->written[r.self].round.store(r.round, std::memory_order_release);
    await(r.shared->written, r.ranks, r.round);
    const double seen = now();
    way.read(r);
    const double read = now();
    sum.all += (read - begin) / count;
    sum.write += (written - begin) / count;
    sum.wait += (seen - written) / count;
    sum.read += (read - seen) / count;
  }
  return sum;
}

/// Medians over the repeats.
void print(const std::vector<Way>& chosen, const std::vector<std::vector<Times>>& results) {
  std::printf("%-16s %9s %9s %9s %9s\n", "us a round", "all", "write", "wait", "read");
  for (std::size_t w = 0; w < chosen.size(); ++w) {
    const auto median = [&](double Times::*part) {
      std::vector<double> values;
      for (const Times& t : results[w]) values.push_back(t.*part);
      const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
      std::nth_element(values.begin(), middle, values.end());
      return *middle;
    };
    std::printf("%-16s %9.2f %9.2f %9.2f %9.2f\n", chosen[w].name.c_str(), median(&Times::all),
                median(&Times::write), median(&Times::wait), median(&Times::read));
  }
}

/// This rank on a core of its own, as far as there are enough.
void bind(std::size_t self) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<int> cores;
  for (int c = 0; c < CPU_SETSIZE; ++c) {
    if (CPU_ISSET(c, &allowed)) cores.push_back(c);
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[self % cores.size()], &one);
  sched_setaffinity(0, sizeof one, &one);
}

void barrier(Rank& r) {
  ++r.round;
  r.shared->written[r.self].round.store(r.round, std::memory_order_release);
  await(r.shared->written, r.ranks, r.round);
}

/// The mean over the ranks of what each tells.
Times mean_of(Rank& r, const Times& own) {
  r.shared->times[r.self] = own;
  barrier(r);
  Times mean{};
  for (std::size_t m = 0; m < r.ranks; ++m) {
    for (double Times::*part : {&Times::all, &Times::write, &Times::wait, &Times::read})
      mean.*part += r.shared->times[m].*part / static_cast<double>(r.ranks);
  }
  barrier(r);
  return mean;
}

void run_rank(Rank r, const std::vector<Way>& chosen, int count) {
  constexpr int repeats = 9;
  bind(r.self);
  r.shared->pids[r.self] = getpid();
  std::memset(r.region[r.self], 1, kRegion);
  r.send = r.region[r.self] + 2 * kBuffer;
  std::vector<std::byte> received(r.ranks * r.bytes);
  r.recv = received.data();
  barrier(r);
  std::vector<std::vector<Times>> results(chosen.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (std::size_t w = 0; w < chosen.size(); ++w) {  // in turn: other work on the machine meets all of them
      rounds(r, chosen[w], count / 4);
      results[w].push_back(mean_of(r, rounds(r, chosen[w], count)));
    }
  }
  if (r.self == 0) print(chosen, results);
}

/// True when all ranks have come to their end.
bool run_ranks(Rank rank, const std::vector<Way>& chosen, int count) {
  std::vector<pid_t> children;
  for (rank.self = 0; rank.self < rank.ranks; ++rank.self) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // ranks wait for each other: none outlives who ends the program
      run_rank(rank, chosen, count);
      std::fflush(stdout);
      _exit(0);
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    good = child > 0 && waitpid(child, &status, 0) == child && status == 0 && good;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t ranks = 2;
  std::size_t bytes = 2048;
  int count = 120;
  std::vector<std::string> names;
  for (const Way& way : ways()) names.push_back(way.name);
  std::vector<std::string> wanted = names;
  CLI::App app(
      "Ways of copying the blocks of an all-to-all through shared memory, timed apart from all else. fresh: "
      "what is "
      "sent is written anew before each round. once: read straight from what is sent, which no MPI program "
      "allows; "
      "attach: the same by process_vm_readv.",
      "tapa_node_copies_benchmark");
  tapa::add_version_flag(app);
  app.add_option("ranks", ranks, "processes, a core each")
      ->check(CLI::Range(std::size_t{2}, kMost))
      ->capture_default_str();
  app.add_option("bytes", bytes, "per pair, a multiple of 64")->capture_default_str();
  app.add_option("ways", wanted, "which ones (default: all)")->check(CLI::IsMember(names));
  app.add_option("--rounds", count, "timed in a row, nine times")
      ->check(CLI::Range(8, 1'000'000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (bytes == 0 || bytes % kLine != 0 || bytes > kBuffer || ranks * bytes + 8192 > kBuffer) {
    std::fprintf(stderr, "bytes: %zu, expected a multiple of %zu, and at most %zu with those of all ranks\n",
                 bytes, kLine, kBuffer - 8192);
    return 2;
  }
  std::vector<Way> chosen;
  for (const Way& way : ways()) {
    if (std::ranges::find(wanted, way.name) != wanted.end()) chosen.push_back(way);
  }
  const auto map = [](std::size_t size) {
    return mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  };
  void* const shared = map(sizeof(Shared));
  void* const memory = map(ranks * kRegion);
  if (shared == MAP_FAILED || memory == MAP_FAILED) return std::perror("mmap"), 1;
  Rank rank{static_cast<Shared*>(shared), {}, 0, ranks, bytes, nullptr, nullptr};
  for (std::size_t m = 0; m < ranks; ++m)
    rank.region.push_back(static_cast<std::byte*>(memory) + m * kRegion);
  return run_ranks(rank, chosen, count) ? 0 : 1;
}
