// The competition of plans, with times made up.
#include "api/trial.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace tapa {
namespace {

/// Runs a trial in which each plan takes what the table says; the median ignores one disturbance of each.
std::string winner(const std::map<std::string, double>& times, const std::vector<std::string>& order) {
  std::vector<Choice> choices;
  for (const std::string& text : order) choices.push_back(parse_choice(text));
  Trial trial(choices);
  std::map<std::string, int> calls;
  while (!trial.complete()) {
    const std::string text = to_string(trial.next());
    const int call = calls[text]++;
    trial.record(call == 0 ? 1e3 : call == 3 ? 1e2 : times.at(text));
  }
  for (const auto& [text, count] : calls) EXPECT_EQ(count, Trial::kRounds + 1) << text;
  return to_string(choices[trial.decide()]);
}

TEST(Trial, TheFastestWins) {
  EXPECT_EQ(winner({{"memory", 3}, {"linear", 2}, {"mpi", 1}}, {"memory", "linear", "mpi"}), "mpi");
  EXPECT_EQ(winner({{"memory", 1}, {"linear", 2}, {"mpi", 3}}, {"memory", "linear", "mpi"}), "memory");
}

TEST(Trial, ASmallGainIsNone) {
  EXPECT_EQ(winner({{"memory", 1.00}, {"mpi", 0.98}}, {"memory", "mpi"}), "memory");
  EXPECT_EQ(winner({{"memory", 1.00}, {"mpi", 0.96}}, {"memory", "mpi"}), "mpi");
}

TEST(Trial, OneChoiceNeedsNoOther) {
  EXPECT_EQ(winner({{"linear", 1}}, {"linear"}), "linear");
}

TEST(Trial, TimesOfTheSlowestRankCount) {
  Trial trial({parse_choice("memory"), parse_choice("mpi")});
  while (!trial.complete()) trial.record(to_string(trial.next()) == "memory" ? 1 : 2);
  EXPECT_EQ(trial.decide(), 0U);
  for (std::size_t i = 0; i < Trial::kRounds; ++i) trial.seconds()[i] = 3;  // memory, on another rank
  EXPECT_EQ(trial.decide(), 1U);
}

}  // namespace
}  // namespace tapa
