// Random damage to the plans of every planner. The verifier must see it, or a run on real bytes must show
// that the plan is still right, which only the order of steps can explain.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "../plan/byte_run.hpp"
#include "../plan/draft.hpp"
#include "../plan/shapes.hpp"
#include "explain/verify.hpp"
#include "mutation.hpp"
#include "plan/planner.hpp"

namespace tapa {
namespace {

constexpr unsigned kSchedules = 6;
constexpr unsigned kTries = 6;

struct Tally {
  int made = 0;
  int found = 0;
};

class Damage : public testing::Test {
 protected:
  static void SetUpTestSuite() { tally().assign(test::mutations().size(), {}); }
  static void TearDownTestSuite() {
    Tally all;
    for (std::size_t m = 0; m < tally().size(); ++m) {
      const Tally& t = tally()[m];
      all.made += t.made;
      all.found += t.found;
      std::printf("%-32s %6d made %6d found %6d harmless\n", test::mutations()[m].name, t.made, t.found,
                  t.made - t.found);
    }
    std::printf("%-32s %6d made %6d found %6d harmless\n", "all", all.made, all.found, all.made - all.found);
  }

  static std::vector<Tally>& tally() {
    static std::vector<Tally> counts;
    return counts;
  }

  static void try_all(const Plan& plan, const Counts& counts, const std::string& name) {
    ASSERT_TRUE(verify(plan, counts).empty()) << name;
    ASSERT_EQ(test::ByteRun(plan, counts, 1).run(), "") << name;
    for (std::size_t m = 0; m < test::mutations().size(); ++m) {
      for (unsigned seed = 0; seed < kTries; ++seed) try_one(plan, counts, name, m, seed);
    }
  }

  static void try_one(const Plan& plan, const Counts& counts, const std::string& name, std::size_t m,
                      unsigned seed) {
    const test::Mutation& mutation = test::mutations()[m];
    std::mt19937 random(seed * 1000 + static_cast<unsigned>(m) + static_cast<unsigned>(name.size()) * 77777U);
    Plan damaged = plan;
    if (!mutation.apply(damaged, random)) return;
    ++tally()[m].made;
    if (!verify(damaged, counts).empty()) {
      ++tally()[m].found;
      return;
    }
    EXPECT_TRUE(mutation.may_be_harmless) << name << ", seed " << seed << ": not found: " << mutation.name;
    for (unsigned schedule = 0; schedule < kSchedules; ++schedule) {
      EXPECT_EQ(test::ByteRun(damaged, counts, schedule).run(), "")
          << name << ", seed " << seed << ": accepted after " << mutation.name;
    }
  }
};

TEST_F(Damage, ToPlansOfEveryPlannerIsFoundOrHarmless) {
  for (const int ranks : {6, 11}) {
    const std::vector<Counts> all_counts = {Counts::uniform(ranks, 24), test::random_counts(ranks, 5)};
    const auto try_shapes = [&](const std::vector<Topology>& shapes,
                                const std::vector<std::string>& choices) {
      for (const Topology& shape : shapes) {
        for (const std::string& choice : choices) {
          for (const Counts& counts : all_counts) {
            try_all(make_plan(shape, counts, parse_choice(choice)), counts,
                    std::to_string(ranks) + " ranks, " + shape.name + ", " + choice);
          }
        }
      }
    };
    try_shapes({test::make_shape("one group", ranks, {})}, test::flat_choices());
    const std::vector<Topology> shapes = {
        test::make_shape("pairs", ranks, {{"node", [](int r) { return r / 2; }}}),
        test::make_shape("round-robin", ranks, {{"node", [](int r) { return r % 3; }}}),
        test::make_shape("ragged", ranks, {{"node", test::ragged_group}})};
    try_shapes(shapes, test::one_level_choices());
    try_shapes({test::two_level_shapes(ranks).back()}, test::two_level_choices());
  }
}

TEST_F(Damage, ToReuseOfScratchIsFoundOrHarmless) {
  try_all(test::pipelined().plan, test::pipelined_counts(), "hand-made pipeline");
  try_all(test::relayed().plan, Counts::uniform(3, 8), "hand-made relay");
}

}  // namespace
}  // namespace tapa
