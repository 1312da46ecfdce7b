#include "rails.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tapa::preload {
namespace {

using ::testing::HasSubstr;

RailSituation two_nics(int local_rank) {
  return {std::nullopt, "nic0,nic1", local_rank, {"eth0", "nic0", "nic1"}};
}

TEST(Rails, GivesTheListedNicsInTurn) {
  EXPECT_EQ(decide_rail(two_nics(0)).include, "nic0");
  EXPECT_EQ(decide_rail(two_nics(1)).include, "nic1");
  EXPECT_EQ(decide_rail(two_nics(2)).include, "nic0");
  EXPECT_EQ(decide_rail(two_nics(7)).include, "nic1");
}

TEST(Rails, AutoIsTheDefault) {
  auto situation = two_nics(1);
  situation.option = "auto";
  EXPECT_EQ(decide_rail(situation).include, "nic1");
}

TEST(Rails, OffChangesNothing) {
  auto situation = two_nics(1);
  situation.option = "off";
  const auto decision = decide_rail(situation);
  EXPECT_EQ(decision.include, std::nullopt);
  EXPECT_FALSE(decision.wrong_option);
}

TEST(Rails, AnotherValueIsComplainedAboutAndChangesNothing) {
  auto situation = two_nics(1);
  situation.option = "on";
  const auto decision = decide_rail(situation);
  EXPECT_EQ(decision.include, std::nullopt);
  EXPECT_TRUE(decision.wrong_option);
  EXPECT_EQ(decision.why, "TAPA_RAILS=on: expected auto or off");
}

TEST(Rails, OneNicIsLeftAsItIs) {
  auto situation = two_nics(1);
  situation.include = "nic1";
  EXPECT_EQ(decide_rail(situation).include, std::nullopt);
}

TEST(Rails, WithoutAListNothingIsGuessed) {
  auto situation = two_nics(1);
  for (const auto& nothing :
       {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>(" , ")}) {
    situation.include = nothing;
    const auto decision = decide_rail(situation);
    EXPECT_EQ(decision.include, std::nullopt);
    EXPECT_THAT(decision.why, HasSubstr("eth0,nic0,nic1"));
  }
  situation.up = {"eth0"};
  EXPECT_THAT(decide_rail(situation).why, HasSubstr("one NIC"));
}

TEST(Rails, PassesOverNicsThatAreNotUp) {
  RailSituation situation{std::nullopt, "nic0,nic1,nic2", 1, {"nic0", "nic2"}};
  EXPECT_EQ(decide_rail(situation).include, "nic2");
  situation.up = {"nic2"};
  EXPECT_EQ(decide_rail(situation).include, std::nullopt);
}

TEST(Rails, NetworksAreEntriesToo) {
  const RailSituation situation{std::nullopt, " 10.99.0.0/24 , 10.99.1.0/24", 3, {"nic0", "nic1"}};
  EXPECT_EQ(decide_rail(situation).include, "10.99.1.0/24");
}

TEST(Rails, OnlyUnderMpirun) {
  auto situation = two_nics(0);
  situation.local_rank.reset();
  EXPECT_EQ(decide_rail(situation).include, std::nullopt);
}

TEST(Rails, ActsOnTheEnvironmentOfTheProcess) {
  setenv("OMPI_MCA_btl_tcp_if_include", "10.99.0.0/24,10.99.1.0/24", 1);
  setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1", 1);
  unsetenv("TAPA_RAILS");
  pin_to_rail();
  EXPECT_STREQ(std::getenv("OMPI_MCA_btl_tcp_if_include"), "10.99.1.0/24");
  for (const char* rank : {"", "-1", "x", "99999999999999999999"}) {
    setenv("OMPI_MCA_btl_tcp_if_include", "10.99.0.0/24,10.99.1.0/24", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", rank, 1);
    pin_to_rail();
    EXPECT_STREQ(std::getenv("OMPI_MCA_btl_tcp_if_include"), "10.99.0.0/24,10.99.1.0/24") << rank;
  }
}

}  // namespace
}  // namespace tapa::preload
