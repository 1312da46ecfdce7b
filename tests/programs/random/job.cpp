#include "job.hpp"

#include <cstdio>

namespace random_program {

std::uint64_t seed = 0;
int world_rank = 0;
int world_size = 1;
bool layouts = false;
std::array<std::atomic<int>, kMostThreads> at_line{};
std::atomic<std::uint64_t> checksum{0};
std::atomic<long long> wrong{0};
std::atomic<long long> copies{0};
std::atomic<long long> deletions{0};
std::mutex objects;
std::map<std::string, Comm> comms;
std::map<std::string, Pending> requests;
std::map<std::string, Window> windows;
pthread_barrier_t everybody;

void tell(const Line& line, const std::string& what) {
  static std::atomic<int> shown{0};
  if (shown++ >= 8) return;
  std::fprintf(stderr, "random_program: rank %d line %d %s: %s\n", world_rank, line.number, line.verb.c_str(),
               what.c_str());
}

void expect(const Line& line, bool right, const char* what) {
  if (right) return;
  ++wrong;
  tell(line, what);
}

Random common_of(const Line& line) {
  return {mixed(seed, static_cast<std::uint64_t>(line.number))};
}

Random own_of(const Line& line) {
  return {mixed(mixed(seed, static_cast<std::uint64_t>(line.number)),
                static_cast<std::uint64_t>(world_rank + 1))};
}

std::uint64_t value_of(const Line& line, const Comm& c, int rank) {
  return mixed(c.name + static_cast<std::uint64_t>(line.number), static_cast<std::uint64_t>(rank)) >> 40;
}

}  // namespace random_program
