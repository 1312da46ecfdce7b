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
  add_to_run(run, first);
  EXPECT_TRUE(run.shapes[0].sizes[0].decided);
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

TEST(Merged, ANewResultReplacesAnOldOne) {
  const ShapeResults old = a_shape({a_size({plan("linear", 1e-5), plan("mpi", 2e-5, 65, true)})});
  const ShapeResults fresh =
      of_this_run(a_shape({a_size({plan("mpi", 1e-5), plan("linear", 3e-5, 9, true)})}));
  const Results after = merged({{old}}, {{fresh}}, kToday + 1);
  ASSERT_EQ(after.shapes.size(), 1U);
  ASSERT_EQ(after.shapes[0].sizes.size(), 1U);
  EXPECT_EQ(after.shapes[0].sizes[0].day, kToday + 1);
  EXPECT_EQ(after.shapes[0].sizes[0].plans, fresh.sizes[0].plans);
}

TEST(Merged, OtherSizesStayWhileTheyHold) {
  ShapeResults other = of_this_run(a_shape());
  other.sizes[0].uniform = false;
  const auto sizes_on = [&](int day) { return merged({{a_shape()}}, {{other}}, day).shapes[0].sizes.size(); };
  EXPECT_EQ(sizes_on(kToday + kResultsDays), 2U);
  EXPECT_EQ(sizes_on(kToday + kResultsDays + 1), 1U);
  EXPECT_EQ(sizes_on(kToday - 1), 2U) << "a clock that is behind deletes nothing";
}

TEST(Merged, WhatStillHoldsChangesNothing) {
  ShapeResults another = a_shape();
  another.topology = "0";
  const Results before{{another, a_shape()}};
  EXPECT_EQ(merged(before, {{a_shape()}}, kToday + 5), before) << "it keeps its day and its place";
}

TEST(Merged, WhatARunHasNotMeasuredReplacesNothing) {
  const ShapeResults known = a_shape();  // what the run began with
  ShapeResults newer = a_shape({a_size({plan("mpi", 1e-5), plan("memory", 2e-5)}, true, kToday + 1)});
  EXPECT_EQ(merged({{newer}}, {{known}}, kToday + 2), Results{{newer}}) << "of another job that ended before";
}

TEST(Merged, WhatChangedLastIsKept) {
  Results file;
  for (int number = 0; number < 100; ++number) {
    ShapeResults shape = of_this_run(a_shape());
    shape.topology = std::to_string(number);
    file = merged(std::move(file), {{shape}}, kToday + 3650);  // whatever the clock says
  }
  EXPECT_EQ(file.shapes.size(), kMostShapeResults);
  EXPECT_EQ(file.shapes[0].topology, "99");
  file = merged(std::move(file), {{of_this_run(a_shape())}}, kToday);
  EXPECT_EQ(file.shapes.size(), kMostShapeResults);
  EXPECT_EQ(fitting(file, a_place(), 4, kToday).size(), 1U);

  ShapeResults full = a_shape(std::vector<SizeResult>(kMostSizeResults, a_size({plan("mpi", 1e-5)})));
  full.sizes[0].bytes = 2048;
  ShapeResults more = a_shape();
  more.sizes[0].bytes = 4096;
  EXPECT_EQ(merged({{full}}, {{more}}, kToday).shapes[0].sizes.size(), kMostSizeResults);
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
      {"/format", "tapa-learnt/1", "cache c.json: $.format: \"tapa-learnt/1\", expected \"tapa-learnt/2\""},
      {"/shapes/0/extra", 1, "unknown key \"extra\""},
      {"/shapes/0/ranks", 1, "$.shapes[0].ranks: 1, expected an integer from 2 to 16"},
      {"/shapes/0/ranks", 17, "$.shapes[0].ranks: 17"},
      {"/shapes/0/job", 0, "$.shapes[0].job"},
      {"/shapes/0/mpi", "a\nb", "$.shapes[0].mpi"},
      {"/shapes/0/sizes", json::array(), "$.shapes[0].sizes"},
      {"/shapes/0/sizes/0/bytes", 3, "$.shapes[0].sizes[0].bytes: 3, expected 0 or a power of two"},
      {"/shapes/0/sizes/0/day", 0, "$.shapes[0].sizes[0].day"},
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

// Of the file, and of what a communicator is told.
TEST(ResultsFile, WhatHasNoRoomIsTheLastOfIt) {
  ShapeResults shape = a_shape({});
  for (std::size_t i = 0; i < 31; ++i) {
    shape.sizes.push_back(a_size(std::vector(kMostPlanResults, plan("mpi", 1e-5))));
    for (std::size_t radix = 0; radix < kMostPlanResults; ++radix)
      shape.sizes[i].plans[radix] = plan("bruck:radix=" + std::to_string(radix + 2), 1.2345678901234567e-5);
    shape.sizes[i].bytes = std::size_t{1} << i;
  }
  Results results;
  for (int number = 0; number < 10; ++number) {
    results.shapes.push_back(shape);
    results.shapes.back().topology = std::to_string(number);
  }
  const Results all = results;
  const std::string text = shortened_json(results);
  EXPECT_EQ(parse_results(text, "of rank 0"), results);
  EXPECT_GE(results.shapes.size(), 1U);
  EXPECT_LT(results.shapes.size(), 10U);
  EXPECT_EQ(results.shapes[0], all.shapes[0]);
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
