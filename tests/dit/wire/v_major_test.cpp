#include "wire/v_major.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <stdexcept>

#include "wire/wire_words.hpp"

namespace dit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename Error, typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_error(const std::string& text) {
  return error_of<std::invalid_argument>([&] { (void)parse_v_major(text); });
}

// A file that is gone at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("v_major_test_" + std::to_string(std::random_device{}()))) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

RatioSchedule constant(double value) {
  return {RatioSchedule::Kind::constant, value, {}};
}

RatioSchedule list(std::vector<double> values) {
  RatioSchedule ratio;
  ratio.kind = RatioSchedule::Kind::list;
  ratio.values = std::move(values);
  return ratio;
}

TEST(VMajorText, Defaults) {
  EXPECT_EQ(parse_v_major("v-major"), VMajorPolicy{});
  EXPECT_EQ(to_string(VMajorPolicy{}), "v-major:warmup=5,refresh=10,ratio=linear");
}

TEST(VMajorText, RoundTrip) {
  const VMajorPolicy policies[] = {{},
                                   {0, 0, constant(0), ""},
                                   {3, 7, constant(1.0 / 3), "node"},
                                   {1, 1, list({0, 0.1, 1e-7, 2.0 / 3, 1}), "tile pair"},
                                   {5, 10, list({0.5}), ""},
                                   {5, 10, {}, "", WireFormat::bf16},
                                   {5, 10, {}, "rack", WireFormat::int4, true}};
  for (const VMajorPolicy& policy : policies) {
    EXPECT_EQ(parse_v_major(to_string(policy)), policy) << to_string(policy);
  }
  EXPECT_EQ(parse_v_major("v-major:boundary=node,ratio=0.5,warmup=2,refresh=0"),
            (VMajorPolicy{2, 0, constant(0.5), "node"}));
  EXPECT_EQ(to_string(parse_v_major("v-major:format=residual-int4")),
            "v-major:warmup=5,refresh=10,ratio=linear,format=residual-int4");
  EXPECT_EQ(parse_v_major("v-major:format=full"), VMajorPolicy{});
}

TEST(VMajorText, RatiosFromAFile) {
  for (const char* text : {"0\n0.25\n1\n", "0,0.25,1", " 0 ,\t0.25,\r\n\n1", "0,0.25,\n1"}) {
    const TemporaryFile file(text);
    EXPECT_EQ(parse_v_major("v-major:ratio=@" + file.path()).ratio, list({0, 0.25, 1})) << text;
  }
  const TemporaryFile one("0.5\n");
  EXPECT_EQ(parse_v_major("v-major:ratio=@" + one.path()).ratio, list({0.5}));
}

TEST(VMajorText, Misuse) {
  const std::string steps = ": expected a whole number of steps, at least 0";
  const std::string ratio =
      ": expected linear, a number from 0 to 1, such numbers with / between them, or @FILE";
  EXPECT_EQ(parse_error("v-minor"), "policy 'v-minor': expected v-major or v-major:KEY=VALUE,...");
  EXPECT_EQ(parse_error(""), "policy '': expected v-major or v-major:KEY=VALUE,...");
  EXPECT_EQ(parse_error("v-major:warmup"), "v-major: 'warmup': expected KEY=VALUE");
  EXPECT_EQ(parse_error("v-major:,"), "v-major: '': expected KEY=VALUE");
  EXPECT_EQ(parse_error("v-major:"), "v-major: '': expected KEY=VALUE");
  EXPECT_EQ(parse_error("v-major:warmup=3,"), "v-major: '': expected KEY=VALUE");
  EXPECT_EQ(parse_error("v-major:warm=5"),
            "v-major: warm=5: expected one of the keys warmup, refresh, ratio, boundary, format");
  EXPECT_EQ(parse_error("v-major:warmup=-1"), "v-major: warmup=-1" + steps);
  EXPECT_EQ(parse_error("v-major:warmup="), "v-major: warmup=" + steps);
  EXPECT_EQ(parse_error("v-major:refresh=2.5"), "v-major: refresh=2.5" + steps);
  EXPECT_EQ(parse_error("v-major:refresh=99999999999"), "v-major: refresh=99999999999" + steps);
  EXPECT_EQ(parse_error("v-major:ratio="), "v-major: ratio=" + ratio);
  EXPECT_EQ(parse_error("v-major:ratio=quadratic"), "v-major: ratio=quadratic" + ratio);
  EXPECT_EQ(parse_error("v-major:ratio=1.5"), "v-major: ratio=1.5" + ratio);
  EXPECT_EQ(parse_error("v-major:ratio=-0.1"), "v-major: ratio=-0.1" + ratio);
  EXPECT_EQ(parse_error("v-major:ratio=nan"), "v-major: ratio=nan" + ratio);
  EXPECT_EQ(parse_error("v-major:ratio=0.5//1"), "v-major: ratio=0.5//1" + ratio);
  EXPECT_EQ(parse_error("v-major:boundary="), "v-major: boundary=: expected the name of a level");
  for (const char* format : {"int3", "residual", "residual-", "residual int4", ""}) {
    EXPECT_EQ(parse_error(std::string("v-major:format=") + format),
              std::string("v-major: format=") + format +
                  ": expected full, bf16, fp8, int8, int4, int2 or int1, also with residual- before it");
  }
}

TEST(VMajorText, MisuseOfFiles) {
  const auto error = [](const std::string& path) { return parse_error("v-major:ratio=@" + path); };
  EXPECT_EQ(
      error("/no/such/file"),
      "v-major: ratio=@/no/such/file: expected a file of at most 1048576 bytes (No such file or directory)");
  EXPECT_EQ(error("/tmp"), "v-major: ratio=@/tmp: expected a file of at most 1048576 bytes (is a folder)");
  EXPECT_EQ(error(""),
            "v-major: ratio=@: expected a file of at most 1048576 bytes (No such file or directory)");
  const TemporaryFile empty(" \n,,\n");
  EXPECT_EQ(error(empty.path()), "v-major: ratio=@" + empty.path() +
                                     ": expected numbers from 0 to 1, one for each step; the file has none");
  const TemporaryFile words("0.1\n0.2, half\n");
  EXPECT_EQ(error(words.path()), "v-major: ratio=@" + words.path() +
                                     ": expected numbers from 0 to 1, one for each step; line 2 has 'half'");
  const TemporaryFile large("0.1\n0.2\n1.01");
  EXPECT_EQ(error(large.path()), "v-major: ratio=@" + large.path() +
                                     ": expected numbers from 0 to 1, one for each step; line 3 has '1.01'");
  const TemporaryFile endless(std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(error(endless.path()),
            "v-major: ratio=@" + endless.path() +
                ": expected a file of at most 1048576 bytes (more than 1048576 bytes)");
}

TEST(VMajorSteps, ThePapersRule) {
  const VMajorPolicy paper;
  std::vector<int> full;
  for (int step = 0; step < 50; ++step) {
    const StepDecision decision = decide_step(paper, step, 50);
    if (decision.full) {
      full.push_back(step);
      EXPECT_EQ(decision.ratio, 0);
    } else {
      EXPECT_DOUBLE_EQ(decision.ratio, (step + 1 - 5) / 45.0);
    }
  }
  EXPECT_THAT(full, ElementsAre(0, 1, 2, 3, 4, 9, 19, 29, 39, 49));
  EXPECT_EQ(std::round(mean_active_fraction(paper, 50) * 1000), 596);
  EXPECT_NEAR(mean_active_fraction(paper, 50), 26.8 / 45, 1e-12);
  VMajorPolicy without_refresh;
  without_refresh.refresh_every = 0;
  EXPECT_NEAR(mean_active_fraction(without_refresh, 50), 0.54, 1e-12);
  EXPECT_EQ(decide_step(without_refresh, 49, 50), (StepDecision{false, 1}));
}

// As a wire policy every step is what the rule decides, on all levels from the boundary on, and the output
// travels in the format with all its rows.
TEST(VMajorSteps, AsAWirePolicy) {
  for (const char* text : {"v-major", "v-major:format=bf16", "v-major:format=residual-int4,refresh=7",
                           "v-major:warmup=0,refresh=0,ratio=0.3,boundary=world,format=fp8"}) {
    const VMajorPolicy rule = parse_v_major(text);
    const WirePolicy policy = wire_policy_of(rule, 50);
    EXPECT_EQ(policy.name, to_string(rule));
    const WirePlan plan(policy, {3, 50, {"node", "rack", "world"}, 1});
    for (int step = 0; step < 50; ++step) {
      const StepDecision decision = decide_step(rule, step, 50);
      WireMode expected;
      expected.format = rule.format;
      expected.residual = rule.residual;
      const int first = rule.boundary.empty() ? 1 : 2;
      EXPECT_EQ(plan.mode(AttentionTensor::output, 2, 1, step, 0), expected);
      if (!decision.full) expected.stays = decision.ratio;
      for (const AttentionTensor tensor :
           {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value}) {
        for (int level = 0; level < 3; ++level) {
          EXPECT_EQ(plan.mode(tensor, level, 2, step, 1), level < first ? WireMode{} : expected);
        }
      }
      EXPECT_EQ(plan.v_major(0, step, 0), expected.stays);
      EXPECT_EQ(plan.brings_all_values(0, step, 0), decision.full);
      EXPECT_NEAR(plan.active_fraction(step), 1 - decision.ratio, 1e-12);
    }
  }
}

TEST(VMajorSteps, TheFirstStepHasNoCache) {
  EXPECT_EQ(decide_step({0, 0, constant(0.5), ""}, 0, 4), StepDecision{});
  EXPECT_EQ(decide_step({0, 0, constant(0.5), ""}, 1, 4), (StepDecision{false, 0.5}));
  EXPECT_EQ(decide_step({0, 0, {}, ""}, 3, 4), (StepDecision{false, 1}));
  EXPECT_NEAR(mean_active_fraction({0, 0, constant(0.5), ""}, 4), 0.625, 1e-12);
}

TEST(VMajorSteps, FewerStepsThanTheWarmUp) {
  for (const int steps : {1, 4, 5}) EXPECT_EQ(mean_active_fraction(VMajorPolicy{}, steps), 1);
}

TEST(VMajorSteps, ListsAndRatioZero) {
  const VMajorPolicy policy{1, 0, list({1, 0, 0.25}), ""};
  EXPECT_EQ(decide_step(policy, 0, 3), StepDecision{});
  EXPECT_EQ(decide_step(policy, 1, 3), StepDecision{});  // all rows travel: full
  EXPECT_EQ(decide_step(policy, 2, 3), (StepDecision{false, 0.25}));
}

TEST(VMajorSteps, Misuse) {
  const auto error = [](const VMajorPolicy& policy, int step, int steps) {
    return error_of<std::invalid_argument>([&] { (void)decide_step(policy, step, steps); });
  };
  EXPECT_EQ(error({}, 0, 0), "steps = 0: expected at least 1");
  EXPECT_EQ(error({}, -1, 50), "step = -1: expected 0 to 49");
  EXPECT_EQ(error({}, 50, 50), "step = 50: expected 0 to 49");
  EXPECT_EQ(error({5, 10, list({0.5, 0.5}), ""}, 0, 50),
            "v-major: ratio has 2 numbers: expected one for each of 50 steps");
  EXPECT_EQ(error_of<std::invalid_argument>([] { (void)mean_active_fraction({}, -3); }),
            "steps = -3: expected at least 1");
}

TEST(ActiveRows, Count) {
  EXPECT_EQ(active_row_count(10, 0), 10);
  EXPECT_EQ(active_row_count(10, 0.25), 8);
  EXPECT_EQ(active_row_count(10, 1), 0);
  EXPECT_EQ(active_row_count(0, 0.5), 0);
  EXPECT_EQ(active_row_count(3, 0.34), 2);
  const auto error = [](std::int64_t rows, double ratio) {
    return error_of<std::invalid_argument>([&] { (void)active_row_count(rows, ratio); });
  };
  EXPECT_EQ(error(-1, 0.5), "rows = -1: expected 0 to 4294967295");
  EXPECT_EQ(error(std::int64_t{1} << 32, 0.5), "rows = 4294967296: expected 0 to 4294967295");
  EXPECT_EQ(error(5, 1.25), "ratio = 1.250000: expected 0 to 1");
  EXPECT_EQ(error(5, std::nan("")), "ratio = nan: expected 0 to 1");
}

TEST(ActiveRows, LargestScoresThenSmallerRows) {
  const std::vector<float> scores{1, 5, 3, 5, -2, 5};
  EXPECT_THAT(choose_active_rows(scores, 0), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(choose_active_rows(scores, 0.5), ElementsAre(1, 3, 5));
  EXPECT_THAT(choose_active_rows(scores, 0.67), ElementsAre(1, 3));
  EXPECT_THAT(choose_active_rows(scores, 0.34), ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(choose_active_rows(scores, 1), IsEmpty());
  EXPECT_THAT(choose_active_rows({}, 0.5), IsEmpty());
  EXPECT_THAT(choose_active_rows(std::vector<float>(4, 7.0F), 0.5), ElementsAre(0, 1));
}

TEST(ActiveRows, SpecialValues) {
  const std::vector<float> scores{kInfinity, kNan, -kNan, -kInfinity, 1, 0.0F, -0.0F, 0.0F};
  EXPECT_THAT(choose_active_rows(scores, 0.75), ElementsAre(1, 2));
  EXPECT_THAT(choose_active_rows(scores, 0.6), ElementsAre(0, 1, 2, 4));
  EXPECT_THAT(choose_active_rows(scores, 0.3), ElementsAre(0, 1, 2, 4, 5, 6));  // 0 and -0 are equal
  EXPECT_THAT(choose_active_rows(scores, 0.2), ElementsAre(0, 1, 2, 4, 5, 6, 7));
}

TEST(ActiveRows, AgreesWithAStableSort) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<float> scores(random() % 100);
    for (float& score : scores) score = static_cast<float>(random() % 13) - 6;
    const double ratio = static_cast<double>(random() % 101) / 100;
    std::vector<std::uint32_t> rows(scores.size());
    for (std::uint32_t row = 0; row < rows.size(); ++row) rows[row] = row;
    std::stable_sort(rows.begin(), rows.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
    rows.resize(static_cast<std::size_t>(active_row_count(static_cast<std::int64_t>(scores.size()), ratio)));
    std::sort(rows.begin(), rows.end());
    EXPECT_EQ(choose_active_rows(scores, ratio), rows);
  }
}

TEST(RowMask, RoundTrip) {
  std::mt19937 random(1);
  for (std::int64_t rows = 0; rows <= 70; ++rows) {
    std::vector<std::uint32_t> active;
    for (std::uint32_t row = 0; row < rows; ++row) {
      if (random() % 2 == 0) active.push_back(row);
    }
    const std::vector<std::uint8_t> mask = rows_to_mask(active, rows);
    EXPECT_EQ(mask.size(), row_mask_bytes(rows));
    EXPECT_EQ(mask_to_rows(mask, rows), active);
  }
  EXPECT_THAT(rows_to_mask(std::vector<std::uint32_t>{0, 3, 8}, 9), ElementsAre(9, 1));
}

TEST(RowMask, Misuse) {
  const auto error = [](std::vector<std::uint8_t> mask, std::int64_t rows) {
    return error_of<std::invalid_argument>([&] { (void)mask_to_rows(mask, rows); });
  };
  EXPECT_EQ(error({1}, 9), "row mask of 1 bytes: expected 2 for 9 rows");
  EXPECT_EQ(error({1, 0}, 8), "row mask of 2 bytes: expected 1 for 8 rows");
  EXPECT_EQ(error({0, 2}, 9), "row mask has row 9: expected none at or beyond rows = 9");
  EXPECT_EQ(error({}, -1), "rows = -1: expected 0 to 4294967295");
  EXPECT_EQ(error_of<std::invalid_argument>([] { (void)rows_to_mask(std::vector<std::uint32_t>{9}, 9); }),
            "active row 9: expected less than rows = 9");
}

// By its name, whoever asks: what the paper compares with travels in 16 bits.
TEST(VMajor, ThePapersRuleTravelsIn16Bits) {
  const WirePolicy paper = wire_policy_from("paper", 20);
  EXPECT_GT(paper.rules.size(), 1U);
  for (const WireRule& rule : paper.rules) {
    EXPECT_EQ(rule.mode.format, WireFormat::bf16);
  }
  EXPECT_EQ(wire_policy_from("v-major:format=bf16", 20), paper);
}

}  // namespace
}  // namespace dit
