#include "topology/override.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "topology/topology_file.hpp"

namespace tapa {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string message(const std::string& text, int ranks) {
  try {
    (void)override_topology(text, ranks);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Override, Factors) {
  const Topology t = override_topology("2x2x3", 12);
  EXPECT_EQ(t.name, "2x2x3");
  EXPECT_EQ(t.levels.size(), 3u);
  ASSERT_EQ(t.sources.size(), 1u);
  EXPECT_EQ(t.sources[0].name, "override");
  EXPECT_EQ(t.sources[0].detail, "TAPA_TOPOLOGY=2x2x3");
  EXPECT_EQ(override_topology("5", 5).levels.size(), 1u);
}

TEST(Override, MachineForTheRanksOfTheCommunicator) {
  const Topology t = override_topology("aurora", 24);
  EXPECT_EQ(t.ranks, 24);
  EXPECT_EQ(t.nodes(), 2);
  ASSERT_EQ(t.sources.size(), 2u);
  EXPECT_EQ(t.sources[0].name, "override");
  EXPECT_EQ(t.sources[1].name, "file");
  EXPECT_THAT(t.sources[1].detail, HasSubstr("aurora.json"));
}

TEST(Override, File) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("tapa-override-" + std::to_string(::getpid()) + ".json"))
          .string();
  std::ofstream(path) << write_topology(make_uniform_topology({2, 3}));
  EXPECT_EQ(override_topology(path, 6).levels.size(), 2u);
  EXPECT_EQ(message(path, 7), "TAPA_TOPOLOGY=" + path + ": " + path + ": describes 6 ranks, expected 7");
  std::filesystem::remove(path);
  EXPECT_EQ(message(path, 6), "TAPA_TOPOLOGY=" + path + ": " + path +
                                  ": cannot be read: No such file or directory, expected a topology file");
}

TEST(Override, AMillionRanksAreNotMadeForACommunicatorOfTwo) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(message("1048576x1", 2),
              "TAPA_TOPOLOGY=1048576x1: the product is 1048576, expected the 2 ranks of the communicator");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST(Override, Errors) {
  const std::string hint =
      ", expected an integer from 1 to 1048576 (for example 2x2x3: groups, slow to fast)";
  EXPECT_EQ(message("", 4), "TAPA_TOPOLOGY=: is empty, expected factors (2x2x3), a machine or a file.json");
  EXPECT_EQ(message("2x3", 7),
            "TAPA_TOPOLOGY=2x3: the product is 6, expected the 7 ranks of the communicator");
  EXPECT_EQ(message("2x0x3", 6), "TAPA_TOPOLOGY=2x0x3: factor \"0\"" + hint);
  EXPECT_EQ(message("2xx3", 6), "TAPA_TOPOLOGY=2xx3: factor \"\"" + hint);
  EXPECT_EQ(message("2x3x", 6), "TAPA_TOPOLOGY=2x3x: factor \"\"" + hint);
  EXPECT_EQ(message("x2", 2), "TAPA_TOPOLOGY=x2: factor \"\"" + hint);
  EXPECT_EQ(message("99999999999999999999", 2),
            "TAPA_TOPOLOGY=99999999999999999999: factor \"99999999999999999999\"" + hint);
  EXPECT_EQ(message("1048576x2", 2), "TAPA_TOPOLOGY=1048576x2: topology has more than 1048576 ranks");
  EXPECT_EQ(message("1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1", 1),
            "TAPA_TOPOLOGY=1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1: 17 factors, expected at most 16");
  EXPECT_THAT(message("2*3", 6), StartsWith("TAPA_TOPOLOGY=2*3: machine \"2*3\" is unknown, expected a "
                                            "file.json or one of aurora, cpu-2socket, "));
  EXPECT_THAT(message("x", 6), StartsWith("TAPA_TOPOLOGY=x: machine \"x\" is unknown"));
  EXPECT_THAT(message("/", 6), HasSubstr("is a folder, expected a topology file"));
}

}  // namespace
}  // namespace tapa
