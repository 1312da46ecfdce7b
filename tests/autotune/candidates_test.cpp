#include "autotune/candidates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tapa {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Pair;

using Texts = std::vector<std::string>;
using Prices = std::vector<std::pair<std::string, double>>;

std::vector<Candidate> candidates_of(const Prices& prices) {
  std::vector<Candidate> list;
  for (const auto& [text, seconds] : prices) list.push_back({parse_choice(text), seconds, false});
  return list;
}

Texts plausible_of(const std::vector<Candidate>& ranked, std::size_t most) {
  Texts texts;
  for (const Choice& choice : plausible(ranked, most)) texts.push_back(to_string(choice));
  return texts;
}

Texts plausible_of(const Prices& ranked, std::size_t most) {
  return plausible_of(candidates_of(ranked), most);
}

Prices prices_of(const std::vector<Candidate>& list) {
  Prices prices;
  for (const Candidate& c : list) prices.emplace_back(to_string(c.choice), c.seconds);
  return prices;
}

Tried tried(const std::string& text, double predicted, double measured) {
  return {parse_choice(text), predicted, measured};
}

TEST(Plausible, TheBestOfEachAlgorithmThatIsNotHopeless) {
  const Prices ranked{{"tapa:split=node", 1},
                      {"tapa:split=node,slow=pairwise", 1.1},
                      {"linear", 1.5},
                      {"linear:window=8", 1.6},
                      {"leaders:split=node", 3},
                      {"pairwise", 3.01},
                      {"bruck", 9}};
  EXPECT_EQ(plausible_of(ranked, 3), (Texts{"tapa:split=node", "linear", "leaders:split=node"}));
  EXPECT_EQ(plausible_of(ranked, 9), (Texts{"tapa:split=node", "linear", "leaders:split=node"}));
  EXPECT_EQ(plausible_of(ranked, 2), (Texts{"tapa:split=node", "linear"}));
  EXPECT_EQ(plausible_of(Prices{{"linear", 1}}, 3), Texts{"linear"});
  EXPECT_EQ(plausible_of(Prices{}, 3), Texts{});
}

TEST(Corrected, ByWhatTheModelWasOffAtTheOtherSize) {
  const auto ranked =
      candidates_of({{"pairwise", 1}, {"linear", 1.5}, {"tapa:split=node", 2}, {"bruck", 2.2}});
  const std::vector<Tried> near{tried("pairwise", 4, 8), tried("linear", 2, 1),
                                tried("tapa:split=node", 3, 3)};
  const auto list = corrected(ranked, near);
  // bruck was not probed: as if the model were as far off as for linear.
  EXPECT_THAT(prices_of(list),
              ElementsAre(Pair("linear", DoubleEq(0.75)), Pair("bruck", DoubleEq(1.1)),
                          Pair("pairwise", DoubleEq(2)), Pair("tapa:split=node", DoubleEq(2))));
  EXPECT_THAT(std::vector<bool>({list[0].measured, list[1].measured, list[2].measured, list[3].measured}),
              ElementsAre(true, false, true, true));
}

TEST(Corrected, AnotherPlanOfTheAlgorithmCountsWhereThePlanItselfWasNotTried) {
  const auto ranked = candidates_of({{"bruck:radix=4", 1}, {"bruck:radix=8", 1}, {"bruck", 1}});
  const std::vector<Tried> near{tried("bruck:radix=4", 1, 5), tried("bruck:radix=8", 1, 3)};
  EXPECT_THAT(prices_of(corrected(ranked, near)),
              ElementsAre(Pair("bruck:radix=8", DoubleEq(3)), Pair("bruck", DoubleEq(3)),
                          Pair("bruck:radix=4", DoubleEq(5))));
}

TEST(Corrected, WhatWasNeverCalledOrPredictedTellsNothing) {
  const Prices prices{{"linear", 1}, {"pairwise", 2}};
  EXPECT_EQ(prices_of(corrected(candidates_of(prices), {})), prices);
  const std::vector<Tried> near{tried("linear", 1, 0), tried("mpi", 0, 3)};
  EXPECT_EQ(prices_of(corrected(candidates_of(prices), near)), prices);
}

TEST(Plausible, WhatWasSlowAtASizeNearbyIsLeftOutSooner) {
  const auto ranked =
      candidates_of({{"linear", 1}, {"pairwise", 1}, {"bruck", 1.4}, {"tapa:split=node", 2.9}});
  const std::vector<Tried> near{tried("linear", 1, 1), tried("pairwise", 1, 1.6), tried("bruck", 1, 1)};
  EXPECT_EQ(plausible_of(corrected(ranked, near), 9), (Texts{"linear", "bruck", "tapa:split=node"}));
}

}  // namespace
}  // namespace tapa
