#include "topology/gpu_peers.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tapa {
namespace {

TEST(GpuPeers, AllNoneOrThoseOfAGroup) {
  for (const char* all : {"", "1"}) {
    EXPECT_TRUE(read_gpu_peers(all)->some);
    EXPECT_EQ(read_gpu_peers(all)->group, "");
  }
  EXPECT_FALSE(read_gpu_peers("0")->some);
  EXPECT_EQ(read_gpu_peers("0")->group, "");
  EXPECT_TRUE(read_gpu_peers("group:a")->some);
  EXPECT_EQ(read_gpu_peers("group:a")->group, "a");
  const std::string longest = "group:" + std::string(GpuPeers::kMostLetters, 'a');
  EXPECT_EQ(read_gpu_peers(longest)->group.size(), GpuPeers::kMostLetters);
}

TEST(GpuPeers, NoneOfAnythingElse) {
  for (const std::string& wrong :
       {std::string("2"), std::string("off"), std::string("group"), std::string("group:"),
        "group:" + std::string(33, 'a'), std::string("Group:a")})
    EXPECT_FALSE(read_gpu_peers(wrong)) << wrong;
}

}  // namespace
}  // namespace tapa
