// What runs leave to each other: joining, giving way, what to begin with; and the file's text.
#include "autotune/results.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "autotune/results_file.hpp"
#include "results_samples.hpp"

namespace tapa {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = ResultsStart;

// What calls begin with.

TEST(ResultsStart, AWinnerIsTriedAgain) {
  EXPECT_EQ(start_from(a_size({plan("memory", 1e-5), plan("mpi", 2e-5)})), Kind::trial);
}

TEST(ResultsStart, WhatNeverPaidIsNotTriedAgain) {
  EXPECT_EQ(start_from(a_size({plan("mpi", 1e-5), plan("memory", 2e-5)})), Kind::mpi);
  EXPECT_EQ(start_from(a_size({plan("memory", 0.97e-5), plan("mpi", 1e-5)})), Kind::mpi);  // a tie
}

TEST(ResultsStart, AFewCallsMustTellMore) {
  struct Case {
    double seconds;
    int samples;
    bool decided;
    Kind kind;
  };
  for (const auto& [seconds, samples, decided, kind] : std::vector<Case>{{0.84e-5, 5, false, Kind::trial},
                                                                         {0.86e-5, 5, false, Kind::compete},
                                                                         {0.84e-5, 4, false, Kind::compete},
                                                                         {0.95e-5, 17, false, Kind::trial},
                                                                         {0.95e-5, 16, false, Kind::compete},
                                                                         {0.95e-5, 2, true, Kind::trial}}) {
    EXPECT_EQ(start_from(a_size({plan("linear", seconds, samples), plan("mpi", 1e-5)}, decided)), kind)
        << seconds << " " << samples << " " << decided;
  }
}

TEST(ResultsStart, WithoutMpiNothingIsKnown) {
  EXPECT_EQ(start_from(a_size({plan("linear", 1e-5)})), Kind::compete);
  EXPECT_EQ(start_from(a_size({})), Kind::compete);
}

// What fits.

TEST(ResultsFit, FitsWhereAllIsEqual) {
  const Results results{{a_shape()}};
  const auto count = [&](const ResultsWhere& where, int ranks, int today) {
    return fitting(results, where, ranks, today).size();
  };
  EXPECT_EQ(count(a_place(), 4, kToday), 1U);
  EXPECT_EQ(count(a_place(), 0, kToday), 1U);
  EXPECT_EQ(count(a_place(), 8, kToday), 0U);
  EXPECT_EQ(count(a_place(), 4, kToday + kResultsDays), 1U);
  EXPECT_EQ(count(a_place(), 4, kToday + kResultsDays + 1), 0U);
  EXPECT_EQ(count(a_place(), 4, kToday - 1), 0U) << "measured in the future";
  const std::vector<std::function<void(ResultsWhere&)>> changes{
      [](ResultsWhere& w) { w.libtapa = "0.2.0"; }, [](ResultsWhere& w) { w.mpi += " "; },
      [](ResultsWhere& w) { w.cpu = "another"; }, [](ResultsWhere& w) { w.settings = ""; },
      [](ResultsWhere& w) { w.job = 17; }};
  for (const auto& change : changes) {
    ResultsWhere other = a_place();
    change(other);
    EXPECT_EQ(count(other, 4, kToday), 0U);
  }
}

// A run's communicators.

TEST(ResultsFit, CommunicatorsOfARunAreOneShape) {
  Results run;
  ShapeResults first = of_this_run(a_shape({a_size({plan("mpi", 1e-5, 5)}, false)}));
  ShapeResults second = of_this_run(a_shape());
  add_to_run(run, first);
  add_to_run(run, second);
  ASSERT_EQ(run.shapes.size(), 1U);
  ASSERT_EQ(run.shapes[0].sizes.size(), 1U);
  EXPECT_TRUE(run.shapes[0].sizes[0].decided) << "the one that tells more";
  EXPECT_EQ(run.shapes[0].sizes[0].calls, 2000);
  add_to_run(run, first);
  EXPECT_TRUE(run.shapes[0].sizes[0].decided);
  EXPECT_EQ(run.shapes[0].sizes[0].calls, 3000);
  ShapeResults elsewhere = second;
  elsewhere.topology = "0";
  add_to_run(run, elsewhere);
  EXPECT_EQ(run.shapes.size(), 2U);
}

TEST(ResultsFit, ANewResultTellsMoreThanAKnownOne) {
  Results run;
  ShapeResults known = of_this_run(a_shape());
  known.sizes[0].day = kToday - 3;
  ShapeResults fresh = of_this_run(a_shape({a_size({plan("mpi", 1e-5), plan("memory", 2e-5)}, false)}));
  add_to_run(run, known);
  add_to_run(run, fresh);
  EXPECT_EQ(run.shapes[0].sizes[0].plans, fresh.sizes[0].plans);
}

// Runs after each other.

TEST(Merged, AFirstRunIsStamped) {
  const Results after = merged({}, {{of_this_run(a_shape())}}, kToday);
  EXPECT_EQ(after, Results{{a_shape()}});
}

TEST(Merged, NothingIsNothing) {
  EXPECT_EQ(merged({}, {}, kToday), Results{});
  EXPECT_EQ(merged({{a_shape()}}, {}, kToday), Results{{a_shape()}});
  EXPECT_EQ(merged({}, {{of_this_run(a_shape({}))}}, kToday), Results{}) << "a shape without sizes";
}

TEST(Merged, ANewResultReplacesAnOldOneButForWhatItLeftOut) {
  const ShapeResults old = a_shape({a_size({plan("linear", 1e-5), plan("mpi", 2e-5, 65, true),
                                            plan("pairwise", 9e-5, 3, true), plan("bruck", 2e-5, 9)})});
  const ShapeResults fresh =
      of_this_run(a_shape({a_size({plan("mpi", 1e-5), plan("linear", 3e-5, 9, true)})}));
  const Results after = merged({{old}}, {{fresh}}, kToday + 1);
  ASSERT_EQ(after.shapes.size(), 1U);
  ASSERT_EQ(after.shapes[0].sizes.size(), 1U);
  EXPECT_EQ(after.shapes[0].sizes[0].day, kToday) << "as old as what it has from before";
  EXPECT_THAT(after.shapes[0].sizes[0].plans,
              ElementsAre(plan("mpi", 1e-5), plan("linear", 3e-5, 9, true), plan("pairwise", 9e-5, 3, true)));
  // What was left out is forgotten with the result that it came from.
  const Results late = merged({{old}}, {{fresh}}, kToday + kResultsDays + 1);
  EXPECT_EQ(late.shapes[0].sizes[0].plans.size(), 2U);
}

// A program that runs each day, and never so long that a size is decided.
TEST(Merged, WhatWasLeftOutComesBackAfterAMonth) {
  Results file{{a_shape({a_size({plan("mpi", 1e-5), plan("pairwise", 9e-5, 3, true)}, false)})}};
  const ShapeResults fresh =
      of_this_run(a_shape({a_size({plan("mpi", 1e-5), plan("linear", 1e-5, 9)}, false)}));
  const auto is_left_out = [&] {
    return std::ranges::any_of(file.shapes[0].sizes[0].plans, &PlanResult::given_up);
  };
  for (int day = kToday + 1; day <= kToday + kResultsDays; ++day) {
    file = merged(file, {{fresh}}, day);
    ASSERT_TRUE(is_left_out()) << day - kToday;
  }
  file = merged(file, {{fresh}}, kToday + kResultsDays + 1);
  EXPECT_FALSE(is_left_out());
}

TEST(Merged, WhatHoldsNoMoreGivesWayFirst) {
  Results file;
  for (int number = 0; number < 100; ++number) {  // under a clock that was ten years ahead
    ShapeResults ahead = a_shape();
    ahead.topology = std::to_string(number);
    file = merged(file, {{of_this_run(ahead)}}, kToday + 3650);
  }
  file = merged(file, {{of_this_run(a_shape())}}, kToday);
  EXPECT_EQ(fitting(file, a_place(), 4, kToday).size(), 1U);

  std::vector<PlanResult> long_plans;
  for (int radix = 2; radix < 2 + static_cast<int>(kMostPlanResults); ++radix)
    long_plans.push_back(plan(
        "leaders:split=node,leaders=all,local=leader,fast=pairwise,slow=bruck(" + std::to_string(radix) + ")",
        1e-5));
  ShapeResults full = a_shape({});
  for (std::size_t i = 0; i < 31; ++i) {
    full.sizes.push_back(a_size(long_plans));
    full.sizes.back().bytes = std::size_t{1} << i;
    full.sizes.back().calls = 1 << 20;
  }
  file = merged({}, {{of_this_run(full)}}, kToday);
  ShapeResults today = a_shape({a_size(long_plans)});
  today.sizes[0].uniform = false;
  today.sizes[0].calls = 1;
  file = merged(file, {{of_this_run(today)}}, kToday + kResultsDays + 1);
  EXPECT_EQ(fitting(file, a_place(), 4, kToday + kResultsDays + 1).size(), 1U) << "few calls, but of today";
}

TEST(Merged, WhatStillHoldsKeepsItsDay) {
  ShapeResults known = a_shape();
  known.day = 0;
  known.sizes[0].calls = 7;
  const Results after = merged({{a_shape()}}, {{known}}, kToday + 5);
  EXPECT_EQ(after.shapes[0].day, kToday + 5);
  EXPECT_EQ(after.shapes[0].sizes[0].day, kToday);
  EXPECT_EQ(after.shapes[0].sizes[0].calls, 7);
}

TEST(Merged, TheOldestGiveWayAndTheFileIsShortEnough) {
  Results file;
  const auto run = [&](int number, int day, std::size_t sizes) {
    ShapeResults shape = of_this_run(a_shape({}));
    shape.topology = std::to_string(number);
    shape.where.mpi = std::string(512, 'x');
    for (std::size_t i = 0; i < sizes; ++i) {
      shape.sizes.push_back(a_size({}));
      shape.sizes.back().bytes = std::size_t{1} << (i % 31);
      shape.sizes.back().uniform = i < 31;
      for (const char* text :
           {"mpi", "memory", "linear:window=100", "pairwise", "bruck:radix=100",
            "tapa:split=socket+node,order=slow-first,fast=bruck(10),slow=linear(10),pipeline=99",
            "leaders:split=node,leaders=all,local=leader,fast=pairwise,slow=bruck(16)"})
        shape.sizes.back().plans.push_back(plan(text, 1.2345678901234567e-5 * (1 + number), 1 << 30));
      shape.sizes.back().day = 0;
      shape.sizes.back().calls = 1 << 30;
    }
    file = merged(std::move(file), {{shape}}, day);
    const std::string text = results_json(file);
    EXPECT_LE(text.size(), kMostResultsBytes);
    EXPECT_EQ(parse_results(text, "written"), file);
    EXPECT_LE(file.shapes.size(), kMostShapeResults);
    EXPECT_EQ(file.shapes[0].topology, std::to_string(number)) << "the last one stays";
  };
  for (int number = 0; number < 100; ++number) run(number, kToday + number, 1);
  EXPECT_GT(file.shapes.size(), 20U);
  for (int number = 100; number < 110; ++number) run(number, kToday + number, 10);
  EXPECT_LT(file.shapes.size(), 10U);
  EXPECT_GE(file.shapes.size(), 2U);
  run(110, kToday + 110, 60);
  EXPECT_LT(file.shapes[0].sizes.size(), 60U) << "some of its sizes had to go";
  EXPECT_GT(file.shapes[0].sizes.size(), 10U);
}

TEST(Differs, OnlyWhatCounts) {
  const Results before{{a_shape()}};
  const auto changed = [&](const std::function<void(ShapeResults&)>& change) {
    Results after = before;
    change(after.shapes[0]);
    return differs(before, after);
  };
  EXPECT_FALSE(changed([](ShapeResults&) {}));
  EXPECT_FALSE(changed([](ShapeResults& s) { s.sizes[0].calls = 1; }));
  EXPECT_FALSE(changed([](ShapeResults& s) { s.day += 2; }));
  EXPECT_TRUE(changed([](ShapeResults& s) { s.day += 3; }));
  EXPECT_TRUE(changed([](ShapeResults& s) { s.sizes[0].day += 1; }));
  EXPECT_TRUE(changed([](ShapeResults& s) { s.sizes[0].plans.pop_back(); }));
  EXPECT_TRUE(changed([](ShapeResults& s) { s.sizes.push_back(s.sizes[0]); }));
  EXPECT_TRUE(differs({}, before));
}

// The file.

json a_document() {
  return json::parse(results_json({{a_shape()}}));
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_results(text, "c.json");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ResultsFile, ReadsWhatItWrites) {
  const Results results{{a_shape(), a_shape({a_size({plan("linear", 0.25, 1, true)}, false, 1)})}};
  EXPECT_EQ(parse_results(results_json(results), "c.json"), results);
  EXPECT_EQ(parse_results(results_json({}), "c.json"), Results{});
}

TEST(ResultsFile, RefusesWhatIsWrongWithItsPlace) {
  struct Case {
    const char* pointer;
    json value;
    const char* message;
  };
  const std::vector<Case> cases{
      {"/format", "tapa-learnt/2", "cache c.json: $.format: \"tapa-learnt/2\", expected \"tapa-learnt/1\""},
      {"/shapes/0/extra", 1, "unknown key \"extra\""},
      {"/shapes/0/ranks", 1, "$.shapes[0].ranks: 1, expected an integer from 2 to 16"},
      {"/shapes/0/ranks", 17, "$.shapes[0].ranks: 17"},
      {"/shapes/0/job", 0, "$.shapes[0].job"},
      {"/shapes/0/mpi", "a\nb", "$.shapes[0].mpi"},
      {"/shapes/0/day", 0, "$.shapes[0].day"},
      {"/shapes/0/sizes", json::array(), "$.shapes[0].sizes"},
      {"/shapes/0/sizes/0/bytes", 3, "$.shapes[0].sizes[0].bytes: 3, expected 0 or a power of two"},
      {"/shapes/0/sizes/0/calls", 4294967296LL, "$.shapes[0].sizes[0].calls"},
      {"/shapes/0/sizes/0/plans/0/choice", "fast",
       "$.shapes[0].sizes[0].plans[0].choice: \"fast\", expected a plan"},
      {"/shapes/0/sizes/0/plans/0/choice", "mpi", "$.shapes[0].sizes[0].plans[1].choice"},
      {"/shapes/0/sizes/0/plans/0/seconds", 0, "$.shapes[0].sizes[0].plans[0].seconds"},
      {"/shapes/0/sizes/0/plans/0/seconds", 1e300, "$.shapes[0].sizes[0].plans[0].seconds"},
      {"/shapes/0/sizes/0/plans/0/seconds", "1", "$.shapes[0].sizes[0].plans[0].seconds"},
      {"/shapes/0/sizes/0/plans/0/samples", 0, "$.shapes[0].sizes[0].plans[0].samples"},
      {"/shapes/0/sizes/0/plans/0/given_up", 1, "$.shapes[0].sizes[0].plans[0].given_up"}};
  for (const auto& [pointer, value, message] : cases) {
    json document = a_document();
    document[json::json_pointer(pointer)] = value;
    EXPECT_THAT(error_of(document.dump()), HasSubstr(message));
  }
}

TEST(ResultsFile, HasLimits) {
  const auto repeated = [](const char* list, std::size_t times) {
    json document = a_document();
    json& array = document[json::json_pointer(list)];
    const json first = array[0];
    while (array.size() < times) array.push_back(first);
    return document.dump();
  };
  EXPECT_THAT(error_of(repeated("/shapes", kMostShapeResults + 1)), HasSubstr("$.shapes"));
  EXPECT_THAT(error_of(repeated("/shapes/0/sizes", kMostSizeResults + 1)), HasSubstr("sizes"));
  EXPECT_THAT(error_of(std::string(kMostResultsBytes + 1, ' ')), HasSubstr("65536"));
}

TEST(ResultsFile, EveryCutIsRefused) {
  const std::string whole = results_json({{a_shape()}});
  for (std::size_t length = 0; length + 2 < whole.size(); ++length)
    EXPECT_NE(error_of(whole.substr(0, length)), "accepted") << length;
}

// What it is for.

TEST(ResultsKey, DigestsAreTheSameEverywhere) {
  EXPECT_EQ(digest_of(""), "cbf29ce484222325");
  EXPECT_EQ(digest_of("a"), "af63dc4c8601ec8c");
}

TEST(ResultsKey, TopologiesThatPlansTellApart) {
  const Topology base = make_uniform_topology({2, 2});
  const std::string digest = topology_digest(base, false);
  EXPECT_EQ(topology_digest(make_uniform_topology({2, 2}), false), digest);
  EXPECT_NE(topology_digest(base, true), digest);
  EXPECT_NE(topology_digest(make_uniform_topology({4}), false), digest);
  EXPECT_NE(topology_digest(make_uniform_topology({2, 4}), false), digest);
  const std::vector<std::function<void(Topology&)>> changes{
      [](Topology& t) {
        t.levels[0].group = {0, 1, 0, 1};
      },
      [](Topology& t) { t.levels[0].name = "rack"; }, [](Topology& t) { t.nic_level = 0; },
      [](Topology& t) { t.nics[0].bandwidth = 1e9; }, [](Topology& t) { t.cores_per_rank = 0.5; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Topology other = base;
    changes[i](other);
    EXPECT_NE(topology_digest(other, false), digest) << i;
  }
  Topology named = base;  // other hosts of the same kind
  named.name = "other";
  named.sources.push_back({"file", true, "x"});
  EXPECT_EQ(topology_digest(named, false), digest);
}

TEST(ResultsKey, SettingsOfMpi) {
  const char* const environment[] = {"UCX_TLS=tcp",
                                     "HOME=/home/a",
                                     "OMPI_MCA_orte_hnp_uri=12.0",
                                     "OMPI_MCA_coll_tuned_use_dynamic_rules=1",
                                     "OMPI_MCA_btl_tcp_if_include=nic0",
                                     "OMPI_MCA_btl=self,tcp",
                                     nullptr};
  EXPECT_THAT(mpi_settings(environment),
              ElementsAre("OMPI_MCA_btl=self,tcp", "OMPI_MCA_coll_tuned_use_dynamic_rules=1", "UCX_TLS=tcp"));
}

}  // namespace
}  // namespace tapa
