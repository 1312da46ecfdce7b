#include "autotune/tuning_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "topology/json_reader.hpp"

namespace tapa {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Tuning a_tuning() {
  Tuning t;
  t.machine = "nd0, nd1";
  t.mpi = "Open MPI v4.1.4";
  t.date = "2026-01-02T03:04:05Z";
  t.ranks = 4;
  t.cores_per_rank = 0.5;
  t.copy = 7.5e9;
  t.nic_bandwidth = 12.5e6;
  t.levels = {{"node", 2, 4e-7, 5e9, 4e9, 3e-7}, {"world", 1, 3e-5, 12e6, 6e6, 8e-6}};
  t.measurements = {{parse_choice("linear"), 16, 1e-4}, {parse_choice("tapa:split=node"), 65536, 0.25}};
  return t;
}

json a_document() {
  return json::parse(tuning_json(a_tuning()));
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_tuning(text, "t.json");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TuningFile, WhatIsWrittenIsRead) {
  const Tuning t = parse_tuning(tuning_json(a_tuning()), "t.json");
  EXPECT_EQ(t.machine, "nd0, nd1");
  EXPECT_EQ(t.mpi, "Open MPI v4.1.4");
  EXPECT_EQ(t.date, "2026-01-02T03:04:05Z");
  EXPECT_EQ(t.ranks, 4);
  EXPECT_DOUBLE_EQ(t.cores_per_rank, 0.5);
  EXPECT_DOUBLE_EQ(t.copy, 7.5e9);
  EXPECT_DOUBLE_EQ(t.nic_bandwidth, 12.5e6);
  ASSERT_EQ(t.levels.size(), 2U);
  EXPECT_EQ(t.levels[1].name, "world");
  EXPECT_EQ(t.levels[0].groups, 2);
  EXPECT_DOUBLE_EQ(t.levels[1].latency, 3e-5);
  EXPECT_DOUBLE_EQ(t.levels[1].bandwidth, 12e6);
  EXPECT_DOUBLE_EQ(t.levels[1].shared_bandwidth, 6e6);
  EXPECT_DOUBLE_EQ(t.levels[1].message, 8e-6);
  ASSERT_EQ(t.measurements.size(), 2U);
  EXPECT_EQ(to_string(t.measurements[1].choice), "tapa:split=node");
  EXPECT_EQ(t.measurements[1].bytes, 65536U);
  EXPECT_DOUBLE_EQ(t.measurements[1].seconds, 0.25);
}

// "MPICH Version:", a tab, "4.0.2": a file that tapa-tune wrote was refused.
TEST(TuningFile, TextOfOthersIsReadAgain) {
  for (const auto& [text, read] :
       std::vector<std::pair<std::string, std::string>>{{"MPICH Version:\t4.0.2", "MPICH Version: 4.0.2"},
                                                        {"a\nb\x7f", "a b "},
                                                        {"M\xc3\xbcnchen \xff", "M??nchen ?"},
                                                        {std::string(9000, 'x'), std::string(4000, 'x')}}) {
    Tuning t = a_tuning();
    t.mpi = plain_text(text, 4000);
    EXPECT_EQ(parse_tuning(tuning_json(t), "t.json").mpi, read);
  }
}

TEST(TuningFile, ANicIsOptional) {
  Tuning t = a_tuning();
  t.nic_bandwidth = 0;
  EXPECT_FALSE(json::parse(tuning_json(t)).contains("nic_bandwidth"));
  EXPECT_EQ(parse_tuning(tuning_json(t), "t.json").nic_bandwidth, 0);
}

TEST(TuningFile, OptionsStandBesideOrAlone) {
  Tuning t = a_tuning();
  t.options = {{"attach-from", "1000"}, {"wait", "sleep"}};
  EXPECT_EQ(parse_tuning(tuning_json(t), "t.json").options, t.options);
  EXPECT_EQ(parse_tuning(tuning_json(t), "t.json").ranks, 4);
  const Tuning alone = parse_tuning(
      R"({"format": "tapa-tuning/1", "options": {"attach-from": 1000, "wait": "sleep"}})", "t.json");
  EXPECT_EQ(alone.options, t.options);
  EXPECT_EQ(alone.ranks, 0);
  EXPECT_EQ(parse_tuning(tuning_json(alone), "t.json").options, t.options);
  EXPECT_THAT(error_of(R"({"format": "tapa-tuning/1", "options": {"wait": ["sleep"]}})"),
              HasSubstr("$.options.wait: an array of 1, expected text"));
  EXPECT_THAT(error_of(R"({"format": "tapa-tuning/1", "options": {}, "copy": 1})"),
              HasSubstr("$: unknown key \"copy\", expected one of format, options"));
  EXPECT_THAT(error_of(R"({"format": "tapa-tuning/1", "options": 7})"),
              HasSubstr("$.options: 7, expected an object of at most 64 members"));
}

struct Broken {
  const char* pointer;  // where the good document is changed
  json value;           // what is put there; discarded means: taken out
  const char* says;
};

TEST(TuningFile, BrokenFilesAreExplained) {
  const json gone = json::value_t::discarded;
  const std::vector<Broken> table{
      {"/format", "tapa-tuning/2",
       "tuning file t.json: $.format: \"tapa-tuning/2\", expected \"tapa-tuning/1\""},
      {"/format", 1, "$.format: 1, expected text of 1 to 256 bytes without control characters"},
      {"/format", gone, "tuning file t.json: $: key \"format\" is missing"},
      {"/ranks", gone, "$: key \"ranks\" is missing"},
      {"/ranks", 0, "$.ranks: 0, expected an integer from 1 to 2147483647"},
      {"/ranks", 4.5, "$.ranks: 4.5, expected an integer"},
      {"/ranks", 1, "$.levels[0].groups: 2, expected at most 1 groups, as levels go from fast to slow"},
      {"/speed", 3, "$: unknown key \"speed\", expected one of format, machine"},
      {"/copy", -1, "$.copy: -1, expected a number of bytes per second above 0"},
      {"/copy", "fast", "$.copy: \"fast\", expected a number of bytes per second above 0"},
      {"/nic_bandwidth", 0, "$.nic_bandwidth: 0, expected a number of bytes per second above 0"},
      {"/cores_per_rank", 0, "$.cores_per_rank: 0, expected a number of cores above 0"},
      {"/levels", json::array(), "$.levels: an array of 0, expected an array of 1 to 64 levels"},
      {"/levels", 7, "$.levels: 7, expected an array of 1 to 64 levels"},
      {"/levels/0", "node", "$.levels[0]: \"node\", expected an object"},
      {"/levels/0/name", "two words", "$.levels[0].name: \"two words\", expected a name"},
      {"/levels/0/name", "world", "$.levels[1].name: \"world\", expected a name that no other level has"},
      {"/levels/0/latency", 0, "$.levels[0].latency: 0, expected a number of seconds above 0"},
      {"/levels/0/latency", nullptr, "$.levels[0].latency: null, expected a number of seconds above 0"},
      {"/levels/1/bandwidth", -5, "$.levels[1].bandwidth: -5, expected a number of bytes per second above 0"},
      {"/levels/1/message", gone, "$.levels[1]: key \"message\" is missing"},
      {"/levels/1/groups", 2, "$.levels[1].groups: 2, expected 1 group, as this is the last level"},
      {"/levels/1/colour", 2, "$.levels[1]: unknown key \"colour\""},
      {"/measurements", gone, "$: key \"measurements\" is missing"},
      {"/measurements/0/choice", "quantum", "$.measurements[0].choice: \"quantum\", expected a plan: "},
      {"/measurements/1/choice", "tapa:split=rack",
       "$.measurements[1].choice: \"tapa:split=rack\", expected a plan that splits at a level of this file, "
       "not at "
       "'rack'"},
      {"/measurements/1/bytes", -1, "$.measurements[1].bytes: -1, expected an integer from 0 to 2147483647"},
      {"/measurements/1/seconds", 0, "$.measurements[1].seconds: 0, expected a number of seconds above 0"},
  };
  for (const Broken& broken : table) {
    json document = a_document();
    const json::json_pointer pointer(broken.pointer);
    if (broken.value.is_discarded()) {
      document.at(pointer.parent_pointer()).erase(pointer.back());
    } else {
      document[pointer] = broken.value;
    }
    EXPECT_THAT(error_of(document.dump()), HasSubstr(broken.says));
  }
}

TEST(TuningFile, TextThatIsNotJson) {
  EXPECT_THAT(error_of(""), HasSubstr("tuning file t.json: not JSON"));
  EXPECT_THAT(error_of("{\"format\": \"tapa-tuning/1\","), HasSubstr("tuning file t.json: not JSON"));
  EXPECT_THAT(error_of("[1]"), HasSubstr("tuning file t.json: $: an array of 1, expected an object"));
}

TEST(TuningFile, AFileThatIsTooLongIsNotParsed) {
  try {
    (void)parse_tuning(std::string((std::size_t{16} << 20) + 5, ' '), "F");
    ADD_FAILURE() << "read";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected at most 16777216"));
  }
}

TEST(TuningFile, FiguresReachTheCostModelByLevelName) {
  const Topology topology = make_uniform_topology({2, 2});  // node, world
  const Rates rates = tuned_rates(a_tuning(), topology, rates_from(topology));
  ASSERT_EQ(rates.levels.size(), 2U);
  EXPECT_DOUBLE_EQ(rates.levels[0].message, 3e-7);
  EXPECT_DOUBLE_EQ(rates.levels[1].latency, 3e-5);
  EXPECT_DOUBLE_EQ(rates.levels[1].bandwidth, 12e6);
  EXPECT_DOUBLE_EQ(rates.copy, 7.5e9);
  EXPECT_DOUBLE_EQ(rates.nic_bandwidth, 12.5e6);
  EXPECT_DOUBLE_EQ(rates.cores_per_rank, 0.5);
}

TEST(TuningFile, LevelsThatTheFileDoesNotHaveKeepTheirFigures) {
  const Topology topology = make_uniform_topology({2, 2, 2});  // socket, node, world
  const Rates base = rates_from(topology);
  const Rates rates = tuned_rates(a_tuning(), topology, base);
  EXPECT_DOUBLE_EQ(rates.levels[0].latency, base.levels[0].latency);
  EXPECT_DOUBLE_EQ(rates.levels[1].latency, 4e-7);
}

TEST(TuningFile, MeasurementsHoldForTheSameShapeOnly) {
  EXPECT_EQ(tuned_measurements(a_tuning(), make_uniform_topology({2, 2})).size(), 2U);
  EXPECT_TRUE(tuned_measurements(a_tuning(), make_uniform_topology({2, 3})).empty());
  EXPECT_TRUE(tuned_measurements(a_tuning(), make_uniform_topology({4, 1})).empty());
  EXPECT_TRUE(tuned_measurements(a_tuning(), make_uniform_topology({4})).empty());
}

TEST(TuningFile, AMeasurementDecidesTheChoice) {
  const Topology topology = make_uniform_topology({2, 2});
  Tuning t = a_tuning();
  t.measurements.clear();
  for (const Choice& choice : candidates(topology, {})) {
    const bool wanted = to_string(choice) == "pairwise";
    t.measurements.push_back({choice, 1024, wanted ? 1e-6 : 1e-3});
  }
  const auto ranked = rank_candidates(topology, tuned_rates(t, topology, rates_from(topology)),
                                      tuned_measurements(t, topology), 1024, {});
  EXPECT_EQ(to_string(ranked.front().choice), "pairwise");
  EXPECT_TRUE(ranked.front().measured);
}

TEST(TuningFile, EveryCandidateSurvivesTheFile) {
  for (const std::vector<int>& shape :
       std::vector<std::vector<int>>{{3}, {2, 2}, {4, 4}, {8, 2, 3}, {6, 2, 2, 2}}) {
    for (const Choice& choice : candidates(make_uniform_topology(shape), {true, true})) {
      EXPECT_EQ(parse_choice(to_string(choice)), choice) << to_string(choice);
    }
  }
}

TEST(TuningFile, AChoiceThatWasPassedOverAtALargerSizeIsNotExtrapolatedToIt) {
  const Topology topology = make_uniform_topology({2, 2});
  const Choice linear = parse_choice("linear");
  const Choice pairwise = parse_choice("pairwise");
  const std::vector<Measurement> measurements{{pairwise, 16, 1e-6}, {linear, 16, 2e-6}, {linear, 65536, 1}};
  const Rates rates = rates_from(topology);
  EXPECT_EQ(rank_candidates(topology, rates, measurements, 16, {}).front().choice, pairwise);
  EXPECT_EQ(rank_candidates(topology, rates, measurements, 4096, {}).front().choice, linear);
  EXPECT_EQ(rank_candidates(topology, rates, measurements, 65536, {}).front().choice, linear);
}

}  // namespace
}  // namespace tapa
