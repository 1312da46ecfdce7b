// What it costs to find out about the machine, for all ranks of a node at once: each in a process of its own.
//   tapa_detect_benchmark [PROCESSES] [LIBTAPA.SO]
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "topology/detect.hpp"
#include "version_flag.hpp"

namespace {

double milliseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Times `work` in that many processes at once; the longest of each of `rounds`, in ascending order.
std::vector<double> longest(int processes, int rounds, const std::function<void()>& work) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    int ends[2];
    if (::pipe(ends) != 0) std::exit(1);
    for (int p = 0; p < processes; ++p) {
      if (::fork() != 0) continue;
      const double time = milliseconds(work);
      ::_exit(::write(ends[1], &time, sizeof time) == sizeof time ? 0 : 1);
    }
    double most = 0;
    for (int p = 0; p < processes; ++p) {
      double time = 0;
      if (::read(ends[0], &time, sizeof time) == sizeof time) most = std::max(most, time);
      ::wait(nullptr);
    }
    ::close(ends[0]);
    ::close(ends[1]);
    times.push_back(most);
  }
  std::sort(times.begin(), times.end());
  return times;
}

void report(const char* what, int processes, int rounds, const std::function<void()>& work) {
  const std::vector<double> times = longest(processes, rounds, work);
  std::printf("%-44s median %8.2f ms, range %.2f to %.2f\n", what, times[times.size() / 2], times.front(),
              times.back());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What it costs the ranks of a node to find out about their machine", "tapa_detect_benchmark");
  tapa::add_version_flag(app);
  int processes = 8;
  std::string library;
  app.add_option("processes", processes, "processes that do so at once")->check(CLI::Range(1, 4096));
  app.add_option("library", library, "a libtapa.so whose loading is timed, too")->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);
  std::printf("%d processes at once, the slowest of them\n", processes);
  if (!library.empty()) {
    report("loading the library", processes, 9, [&] {
      if (::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
        std::fprintf(stderr, "%s\n", ::dlerror());
    });
  }
  report("a rank's record, as the library makes it", processes, 9, [] { (void)tapa::local_record(); });
  report("all sources, as tapa-info asks them", processes, 3, [] { (void)tapa::describe_process(true); });
  return 0;
}
