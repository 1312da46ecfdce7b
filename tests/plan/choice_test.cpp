#include "plan/choice.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tapa {
namespace {

const std::vector<Flat> kFlats = {{FlatAlgorithm::linear, 2, 0},   {FlatAlgorithm::linear, 2, 1},
                                  {FlatAlgorithm::linear, 2, 32},  {FlatAlgorithm::pairwise, 2, 0},
                                  {FlatAlgorithm::bruck, 2, 0},    {FlatAlgorithm::bruck, 3, 0},
                                  {FlatAlgorithm::bruck, 65536, 0}};
const std::vector<std::vector<std::string>> kSplits = {
    {"node"}, {"tile", "node"}, {"gpu", "socket", "rack-2"}};

void expect_round_trip(const Choice& choice) {
  const std::string text = to_string(choice);
  SCOPED_TRACE(text);
  const Choice again = parse_choice(text);
  EXPECT_EQ(again, choice);
  EXPECT_EQ(to_string(again), text);
}

TEST(Choice, FlatTextsRoundTrip) {
  for (const char* text :
       {"mpi", "memory", "linear", "linear:window=8", "pairwise", "bruck", "bruck:radix=7"}) {
    EXPECT_EQ(to_string(parse_choice(text)), text);
  }
  EXPECT_EQ(parse_choice("bruck").flat.algorithm, FlatAlgorithm::bruck);
  EXPECT_EQ(parse_choice("pairwise").flat.algorithm, FlatAlgorithm::pairwise);
}

TEST(Choice, EveryTapaSettingRoundTrips) {
  Choice choice;
  choice.algorithm = Algorithm::tapa;
  for (const auto& splits : kSplits) {
    for (const PhaseOrder order : {PhaseOrder::fast_first, PhaseOrder::slow_first}) {
      for (const Flat& fast : kFlats) {
        for (const Flat& slow : kFlats) {
          for (const int pipeline : {1, 4, 1024}) {
            choice.splits = splits;
            choice.order = order;
            choice.fast = fast;
            choice.slow = slow;
            choice.pipeline = pipeline;
            expect_round_trip(choice);
          }
        }
      }
    }
  }
}

TEST(Choice, EveryLeadersSettingRoundTrips) {
  Choice choice;
  choice.algorithm = Algorithm::leaders;
  choice.splits = {"node"};
  for (const int leaders : {0, 1, 2, 12}) {
    for (const bool direct : {true, false}) {
      for (const Flat& fast : kFlats) {
        for (const Flat& slow : kFlats) {
          for (const int pipeline : {1, 4}) {
            choice.leaders = leaders;
            choice.local_direct = direct;
            choice.fast = fast;
            choice.slow = slow;
            choice.pipeline = pipeline;
            expect_round_trip(choice);
          }
        }
      }
    }
  }
}

TEST(Choice, CanonicalTextLeavesDefaultsOut) {
  EXPECT_EQ(to_string(parse_choice("tapa:slow=bruck,pipeline=1,order=fast-first,split=node,fast=linear(0)")),
            "tapa:split=node,slow=bruck(2)");
  EXPECT_EQ(to_string(parse_choice("leaders:local=direct,leaders=1,split=node")), "leaders:split=node");
  EXPECT_EQ(to_string(parse_choice("leaders:split=node,leaders=all,local=leader")),
            "leaders:split=node,leaders=all,local=leader");
  EXPECT_EQ(to_string(parse_choice("linear:window=0")), "linear");
  EXPECT_EQ(to_string(parse_choice("bruck:radix=2")), "bruck");
}

struct Wrong {
  std::string text;
  std::string message;
};

class WrongChoice : public testing::TestWithParam<Wrong> {};

TEST_P(WrongChoice, IsRefusedInWords) {
  try {
    const Choice choice = parse_choice(GetParam().text);
    FAIL() << "accepted as " << to_string(choice);
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(error.what(), "plan \"" + GetParam().text + "\": " + GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, WrongChoice,
    testing::Values(
        Wrong{"",
              "algorithm \"\" is unknown, expected mpi, memory, linear, pairwise, bruck, tapa or leaders"},
        Wrong{"Linear",
              "algorithm \"Linear\" is unknown, expected mpi, memory, linear, pairwise, bruck, tapa or "
              "leaders"},
        Wrong{
            "ring:radix=2",
            "algorithm \"ring\" is unknown, expected mpi, memory, linear, pairwise, bruck, tapa or leaders"},
        Wrong{"mpi:", "setting \"\" has no value, expected key=value"},
        Wrong{"mpi:radix=2", "setting \"radix\" is unknown to mpi, expected no settings"},
        Wrong{"pairwise:window=2", "setting \"window\" is unknown to pairwise, expected no settings"},
        Wrong{"linear:radix=2", "setting \"radix\" is unknown to linear, expected window"},
        Wrong{"linear:window", "setting \"window\" has no value, expected key=value"},
        Wrong{"linear:window=", "window is \"\", expected a whole number from 0 to 1048576"},
        Wrong{"linear:window=-1", "window is \"-1\", expected a whole number from 0 to 1048576"},
        Wrong{"linear:window=2k", "window is \"2k\", expected a whole number from 0 to 1048576"},
        Wrong{"linear:window=99999999999",
              "window is \"99999999999\", expected a whole number from 0 to 1048576"},
        Wrong{"linear:window=1,window=2", "setting \"window\" is given twice"},
        Wrong{"bruck:radix=1", "radix is \"1\", expected a whole number from 2 to 65536"},
        Wrong{"tapa", "split is missing, expected the level whose groups are cut, for example split=node"},
        Wrong{"tapa:split=", "split is \"\", expected level names joined by +"},
        Wrong{"tapa:split=tile+", "split is \"tile+\", expected level names joined by +"},
        Wrong{"tapa:split=a=+b", "split is \"a=+b\", expected level names joined by +"},
        Wrong{"tapa:split=no de", "split is \"no de\", expected level names joined by +"},
        Wrong{"tapa:split=7", "split is \"7\", expected level names joined by +"},
        Wrong{"tapa:split=node+node", "split names level \"node\" twice"},
        Wrong{"tapa:split=node,radix=3",
              "setting \"radix\" is unknown to tapa, expected one of split, order, fast, slow, pipeline"},
        Wrong{"tapa:split=node,leaders=2",
              "setting \"leaders\" is unknown to tapa, expected one of split, order, fast, slow, pipeline"},
        Wrong{"tapa:split=node,order=slow", "order is \"slow\", expected fast-first or slow-first"},
        Wrong{"tapa:split=node,fast=ring",
              "fast is \"ring\", expected linear, linear(WINDOW), pairwise or bruck(RADIX)"},
        Wrong{"tapa:split=node,fast=pairwise(2)",
              "fast is \"pairwise(2)\", expected linear, linear(WINDOW), pairwise or bruck(RADIX)"},
        Wrong{"tapa:split=node,slow=bruck(1)",
              "slow radix is \"1\", expected a whole number from 2 to 65536"},
        Wrong{"tapa:split=node,slow=bruck(2", "slow is \"bruck(2\", expected a closing )"},
        Wrong{"tapa:split=node,slow=bruck()", "slow radix is \"\", expected a whole number from 2 to 65536"},
        Wrong{"tapa:split=node,slow=linear(x)",
              "slow window is \"x\", expected a whole number from 0 to 1048576"},
        Wrong{"tapa:split=node,pipeline=0", "pipeline is \"0\", expected a whole number from 1 to 1024"},
        Wrong{"tapa:split=node,,pipeline=2", "setting \"\" has no value, expected key=value"},
        Wrong{"leaders:split=node,leaders=0",
              "leaders is \"0\", expected a whole number from 1 to 1048576 or all"},
        Wrong{"leaders:split=node,local=yes", "local is \"yes\", expected direct or leader"},
        Wrong{"leaders:split=tile+node", "split is \"tile+node\", expected one level: leaders cut once"},
        Wrong{"leaders:leaders=2",
              "split is missing, expected the level whose groups are cut, for example split=node"}));

}  // namespace
}  // namespace tapa
