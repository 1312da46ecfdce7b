// Libraries of other versions than those of the headers, as MPI libraries bring them: what does not fit is
// not used, and the report says why. Each case is a process of its own; EXPECTED is what the report of SOURCE
// must hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "topology/hwloc_source.hpp"
#include "topology/libfabric_source.hpp"
#include "topology/record.hpp"

namespace tapa {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

SourceReport ask(const std::string& source) {
  if (source == "libfabric") {
    std::vector<Interface> interfaces;
    SourceReport report = add_libfabric(interfaces);
    EXPECT_TRUE(interfaces.empty());
    return report;
  }
  Record record;
  EXPECT_FALSE(add_hwloc([](const char*) { return std::string(); }, {}, record));
  EXPECT_EQ(record.sources.size(), 1U);
  return record.sources.at(0);
}

TEST(OtherLibraries, AreNotUsedWhenTheyDoNotFit) {
  const SourceReport report = ask(variable("SOURCE"));
  EXPECT_EQ(report.name, variable("SOURCE"));
  EXPECT_FALSE(report.used);
  EXPECT_THAT(report.detail, testing::HasSubstr(variable("EXPECTED")));
}

}  // namespace
}  // namespace tapa
