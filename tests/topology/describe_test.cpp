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

/// hwloc takes 10 ms and more of a process's CPU, libfabric 300: neither where /sys says all.
TEST(Describe, LoadsNothingThatTakesLong) {
  if (has_rdma_device("/sys") || has_gpu("/sys")) GTEST_SKIP() << "this machine may need them";
  EXPECT_FALSE(loaded("libfabric"));
  EXPECT_GT(describe_process(false).cores, 0);
  EXPECT_FALSE(loaded("libfabric"));
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
    each->gpus.clear();  // the library does not ask NVML
  }
  EXPECT_EQ(to_json(brief), to_json(thorough));
}

}  // namespace
}  // namespace tapa
