#include "engine/threads.hpp"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

#include "exchange/exchange.hpp"
#include "files/environment.hpp"

namespace dit {
namespace {

constexpr int kMostThreads = 1024;

int threads_from(const std::string& text) {
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc() || end != text.data() + text.size() || threads < 1 || threads > kMostThreads) {
    throw std::invalid_argument("DIT_THREADS = " + text + ": expected a number from 1 to " +
                                std::to_string(kMostThreads));
  }
  return threads;
}

cpu_set_t own_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0 || CPU_COUNT(&cores) == 0) {
    CPU_SET(0, &cores);  // more cores than the set can name: let the user say
  }
  return cores;
}

/// Ranks of this node, this one too, that may run on one of this rank's cores.
int ranks_on_same_cores(ExchangeContext& context, const cpu_set_t& own) {
  const auto all = context.all_gather(std::as_bytes(std::span(&own, 1)));
  const bool one_process = context.plugin().name() == "local";
  int sharing = 0;
  for (int peer = 0; peer < context.size(); ++peer) {
    cpu_set_t theirs;
    std::memcpy(&theirs, all.data() + static_cast<std::size_t>(peer) * sizeof(theirs), sizeof(theirs));
    cpu_set_t both;
    CPU_AND(&both, &own, &theirs);
    const bool same_node = one_process || context.level_of(peer) < context.slow_level();
    sharing += same_node && CPU_COUNT(&both) > 0 ? 1 : 0;
  }
  return std::max(sharing, 1);
}

}  // namespace

int compute_threads_for(ExchangeContext* context) {
  const cpu_set_t cores = own_cores();
  const int sharing = context != nullptr ? ranks_on_same_cores(*context, cores) : 1;
  if (const char* wanted = files::variable("DIT_THREADS"); wanted != nullptr) {
    return threads_from(wanted);
  }
  return std::max(1, CPU_COUNT(&cores) / sharing);
}

void use_compute_threads(int threads) {
  at::set_num_threads(threads);
  using SetThreads = void (*)(int);
  if (const auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
      set != nullptr) {
    set(1);
  }
}

}  // namespace dit
