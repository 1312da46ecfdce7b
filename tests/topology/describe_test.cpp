// What the library asks of the machine, and what it costs; a program of its own, which has loaded nothing
// else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>

#include "topology/detect.hpp"
#include "topology/sysfs.hpp"

namespace tapa {
namespace {

using testing::HasSubstr;
using testing::Not;

bool loaded(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(library) != std::string::npos) return true;
  }
  return false;
}

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// hwloc takes 10 ms and more of a process's CPU, libfabric 300: neither where /sys says all.
TEST(Describe, TakesFewMilliseconds) {
  if (has_rdma_device("/sys") || has_gpu("/sys")) GTEST_SKIP() << "this machine may need them";
  EXPECT_FALSE(loaded("libfabric"));
  double least = 1;
  for (int i = 0; i < 5; ++i) {
    const double start = cpu_seconds();
    const Record record = describe_process(false);
    least = std::min(least, cpu_seconds() - start);
    EXPECT_GT(record.cores, 0);
  }
  EXPECT_FALSE(loaded("libfabric"));
  EXPECT_LT(least, 5e-3);
}

TEST(Describe, LibraryAndToolAgree) {
  Record brief = describe_process(false);
  Record thorough = describe_process(true);
  EXPECT_GT(thorough.facts.memory, 0);
  for (const char* source : {"hwloc", "libfabric", "sysfs"}) {
    const auto named = [&](const SourceReport& s) { return s.name == source; };
    EXPECT_EQ(std::count_if(brief.sources.begin(), brief.sources.end(), named), 1) << source;
    EXPECT_EQ(std::count_if(thorough.sources.begin(), thorough.sources.end(), named), 1) << source;
  }
  for (const SourceReport& s : thorough.sources) EXPECT_THAT(s.detail, Not(HasSubstr("sees otherwise")));
  for (Record* each : {&brief, &thorough}) {
    each->sources.clear();
    each->facts = {};
  }
  EXPECT_EQ(to_json(brief), to_json(thorough));
}

}  // namespace
}  // namespace tapa
