#include "rails.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

namespace tapa::preload {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kMask16 = 0xffff0000;
constexpr std::uint32_t kMask24 = 0xffffff00;

const Nic kEth0{"eth0", 0x0a620001, kMask24};  // 10.98.0.1
const Nic kNic0{"nic0", 0x0a630001, kMask16};  // 10.99.0.1
const Nic kNic1{"nic1", 0x0a630101, kMask16};  // 10.99.1.1
const Nic kNic2{"nic2", 0x0a630201, kMask16};  // 10.99.2.1

constexpr std::string_view kNothing;  // is changed

/// With the NICs that are up.
struct Situation : RailSituation {
  explicit Situation(std::string_view list, std::optional<int> rank, std::vector<Nic> there)
      : nics(std::move(there)) {
    include = list;
    local_rank = rank;
  }
  std::vector<Nic> nics;
};

RailDecision decide(Situation situation) {
  situation.up = situation.nics;
  auto decision = decide_rail(situation);
  const auto list = situation.include;
  const auto mine = decision.include;
  EXPECT_TRUE(mine.empty() || (mine.data() >= list.data() && mine.end() <= list.end()))
      << "not a part of the list";
  return decision;
}

Situation two_nics(int local_rank) {
  return Situation("nic0,nic1", local_rank, {kEth0, kNic0, kNic1});
}

/// The same two in networks of their own.
Situation two_networks(int local_rank) {
  auto situation = two_nics(local_rank);
  for (auto& nic : situation.nics) nic.netmask = kMask24;
  return situation;
}

TEST(Rails, GivesTheListedNicsInTurn) {
  EXPECT_EQ(decide(two_nics(0)).include, "nic0");
  EXPECT_EQ(decide(two_nics(1)).include, "nic1");
  EXPECT_EQ(decide(two_nics(2)).include, "nic0");
  EXPECT_EQ(decide(two_nics(7)).include, "nic1");
}

TEST(Rails, AllChangesNothing) {
  auto situation = two_nics(1);
  for (const char* option : {"all", "all,nic0,nic1"}) {
    situation.option = option;
    EXPECT_EQ(decide(situation).include, kNothing);
  }
}

TEST(Rails, NamesOfNicsSayNothingAboutRails) {
  for (const char* option : {"nic0", "nic0,nic1", "nic0,all"}) {
    auto situation = two_nics(1);
    situation.option = option;
    EXPECT_EQ(decide(situation).include, "nic1");
    situation = two_networks(1);
    situation.option = option;
    EXPECT_EQ(decide(situation).include, kNothing);
  }
}

TEST(Rails, OneNicIsLeftAsItIs) {
  auto situation = two_nics(1);
  situation.include = "nic1";
  EXPECT_EQ(decide(situation).include, kNothing);
}

TEST(Rails, WithoutAListNothingIsGuessed) {
  auto situation = two_nics(1);
  for (const char* nothing : {"", " , "}) {
    situation.include = nothing;
    const auto decision = decide(situation);
    EXPECT_EQ(decision.include, kNothing);
    EXPECT_THAT(decision.why.c_str(), HasSubstr("eth0,nic0,nic1"));
  }
  situation.nics = {kEth0};
  EXPECT_THAT(decide(situation).why.c_str(), HasSubstr("one NIC"));
}

TEST(Rails, PassesOverNicsThatAreNotUp) {
  Situation situation("nic0,nic1,nic2", 1, {kNic0, kNic2});
  EXPECT_EQ(decide(situation).include, "nic2");
  situation.nics = {kNic2};
  EXPECT_EQ(decide(situation).include, kNothing);
}

TEST(Rails, NetworksAreEntriesToo) {
  Situation situation(" 10.99.0.0/24 , 10.99.1.0/24", 3, {kNic0, kNic1});
  EXPECT_EQ(decide(situation).include, "10.99.1.0/24");
  for (const char* one_up :
       {"10.99.0.0/24,10.97.0.0/24", "10.99.0.0/24,10.99.1.0/33", "10.99.0.0/24,10.99.1/24",
        "10.99.0.0/24,10.99.1.0/", "10.99.0.0/24,/24", "10.99.0.0/24,10.99.1.1"}) {
    situation.include = one_up;
    EXPECT_EQ(decide(situation).include, kNothing) << one_up;
  }
}

TEST(Rails, NicsInNetworksOfTheirOwnAreNotPinned) {
  for (const char* list : {"nic0,nic1", "10.99.0.0/24,10.99.1.0/24"}) {
    auto situation = two_networks(1);
    situation.include = list;
    const auto decision = decide(situation);
    EXPECT_EQ(decision.include, kNothing);
    EXPECT_THAT(decision.why.c_str(),
                HasSubstr("networks of their own (nic0 10.99.0.0/24,nic1 10.99.1.0/24)"));
  }
}

TEST(Rails, NamesEachNicOnce) {
  auto situation = two_nics(1);
  situation.include = "";
  situation.nics.push_back(kNic0);
  EXPECT_THAT(decide(situation).why.c_str(), HasSubstr("(eth0,nic0,nic1)"));
}

TEST(Rails, OneEntryMayBringAnotherNetwork) {
  auto situation = two_nics(1);
  situation.include = "nic0,nic1,eth0";
  EXPECT_EQ(decide(situation).include, kNothing);
  situation.include = "nic0,nic1";
  situation.nics.push_back({"nic1", 0xc0a80001, kMask16});  // a second address
  EXPECT_EQ(decide(situation).include, kNothing);
}

TEST(Rails, AddressesOfOnePrefixWithMasksThatDifferAreNotOneNetwork) {
  auto situation = two_nics(1);
  situation.nics[2].netmask = kMask24;
  EXPECT_EQ(decide(situation).include, kNothing);
}

TEST(Rails, OnPinsWhateverTheNetworks) {
  auto situation = two_networks(1);
  situation.option = "each";
  EXPECT_EQ(decide(situation).include, "nic1");
}

TEST(Rails, OnlyUnderMpirun) {
  auto situation = two_nics(0);
  situation.local_rank.reset();
  EXPECT_EQ(decide(situation).include, kNothing);
}

TEST(Rails, ActsOnTheEnvironmentOfTheProcess) {
  const auto include = [] {
    const char* const value = std::getenv("OMPI_MCA_btl_tcp_if_include");
    return std::string(value != nullptr ? value : "");
  };
  const std::string nothing = "10.254.0.0/24,10.254.1.0/24";  // no NIC of this machine, most likely
  setenv("OMPI_MCA_btl_tcp_if_include", nothing.c_str(), 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  setenv("TAPA_NICS", "each", 1);
  pin_to_rail();
  EXPECT_EQ(include(), nothing);
  const std::string everything = "0.0.0.0/0,0.0.0.0/1,128.0.0.0/1";
  setenv("OMPI_MCA_btl_tcp_if_include", everything.c_str(), 1);
  pin_to_rail();
  // The first and one of the halves have NICs, where this machine has any.
  if (include() == everything) GTEST_SKIP() << "no NIC here";
  EXPECT_THAT(include(), ::testing::AnyOf("0.0.0.0/1", "128.0.0.0/1"));
  for (const char* rank : {"", "-1", "x", "99999999999999999999"}) {
    setenv("OMPI_MCA_btl_tcp_if_include", everything.c_str(), 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", rank, 1);
    pin_to_rail();
    EXPECT_EQ(include(), everything) << rank;
  }
}

}  // namespace
}  // namespace tapa::preload
