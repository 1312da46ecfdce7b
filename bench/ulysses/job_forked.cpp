#include <algorithm>
#include <cstdio>
#include <list>
#include <memory>
#include <stdexcept>

#include "device/gpu.hpp"
#include "device/ranks.hpp"
#include "dit/bootstrap.h"
#include "job.hpp"

namespace tapa::bench {
namespace {

/// What a session was given; it may use it to the program's end.
struct Given {
  std::unique_ptr<Ranks> ranks;
  dit_bootstrap bootstrap;
};

Ranks* ranks_of_job = nullptr;
std::list<Given> given;

int allgather(void* user, const void* mine, void* all, std::size_t bytes) {
  static_cast<Ranks*>(user)->allgather(mine, all, bytes);
  return 0;
}

}  // namespace

void Job::barrier() {
  ranks_of_job->barrier();
}

double Job::greatest(double value) {
  const std::vector<double> all = ranks_of_job->gather(value);
  return *std::max_element(all.begin(), all.end());
}

std::uint64_t Job::sum(std::uint64_t value) {
  std::uint64_t sum = 0;
  for (const std::uint64_t each : ranks_of_job->gather(value)) sum += each;
  return sum;
}

void* Job::communicator() {
  Given& made = given.emplace_back();
  made.ranks = ranks_of_job->another();
  made.bootstrap.struct_size = sizeof(made.bootstrap);
  made.bootstrap.rank = made.ranks->rank();
  made.bootstrap.size = made.ranks->size();
  made.bootstrap.allgather = allgather;
  made.bootstrap.user = made.ranks.get();
  return &made.bootstrap;
}

const char* Job::host_plugin() {
  return "bootstrap";
}

const char* Job::device_plugin() {
  return "bootstrap";
}

int run_program(const char* name, int argc, char** argv, const std::function<int(Job&)>& body) {
  try {
    const int size = static_cast<int>(Arguments(argc, argv).number("ranks", 2));
    return run_ranks(size, [&](Ranks& ranks) {
      ranks_of_job = &ranks;
      Job job(ranks.rank(), ranks.size());
      return body(job);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace tapa::bench
