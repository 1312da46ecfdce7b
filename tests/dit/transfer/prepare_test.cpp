// RMSNorm and RoPE as the host's path computes them: against double precision, and against the order that the
// header promises. The kernel is the same functions.
#include "transfer/device/prepare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "dit/dit.h"

namespace dit {
namespace {

// --- Conversions.

TEST(PrepareNumbers, Bf16GoesThroughFloatUnchanged) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Bf16 number{static_cast<std::uint16_t>(bits)};
    const Bf16 back = Rounded<Bf16>::of(to_float(number));
    if (std::isnan(to_float(number)))
      EXPECT_EQ(back.bits, 0x7fff);
    else
      EXPECT_EQ(back.bits, bits);
  }
}

TEST(PrepareNumbers, Fp16GoesThroughFloatUnchanged) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Fp16 number{static_cast<std::uint16_t>(bits)};
    const Fp16 back = Rounded<Fp16>::of(to_float(number));
    if (std::isnan(to_float(number)))
      EXPECT_EQ(back.bits, 0x7fff);
    else
      ASSERT_EQ(back.bits, bits);
  }
}

// The nearest of the two numbers around, the even one of two that are as near.
template <class Element>
void check_rounding(std::uint16_t lower) {
  const float low = to_float(Element{lower});
  const float high = to_float(Element{static_cast<std::uint16_t>(lower + 1)});
  if (!std::isfinite(low) || !std::isfinite(high)) return;
  const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
  const std::uint16_t even = lower % 2 == 0 ? lower : static_cast<std::uint16_t>(lower + 1);
  ASSERT_EQ(Rounded<Element>::of(middle).bits, even);
  ASSERT_EQ(Rounded<Element>::of(std::nextafter(middle, low)).bits, lower);
  ASSERT_EQ(Rounded<Element>::of(std::nextafter(middle, high)).bits, lower + 1);
  ASSERT_EQ(Rounded<Element>::of(-middle).bits, even | 0x8000);
}

TEST(PrepareNumbers, RoundToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7fff; ++bits) {
    check_rounding<Fp16>(static_cast<std::uint16_t>(bits));
    check_rounding<Bf16>(static_cast<std::uint16_t>(bits));
    ASSERT_FALSE(HasFatalFailure()) << bits;
  }
  EXPECT_EQ(Rounded<Fp16>::of(65519.0F).bits, 0x7bff);
  EXPECT_EQ(Rounded<Fp16>::of(65520.0F).bits, 0x7c00);
  EXPECT_EQ(Rounded<Fp16>::of(-1e30F).bits, 0xfc00);
  EXPECT_EQ(Rounded<Bf16>::of(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(Rounded<Bf16>::of(std::numeric_limits<float>::quiet_NaN()).bits, 0x7fff);
}

// --- Whole jobs.

struct Setting {
  int samples, rows, heads, head_dim;
  Norm norm;
  Rope rope;
  bool round_norm, weights_fp32;
};

template <class Element>
class Job {
 public:
  explicit Job(const Setting& setting) : setting_(setting), random_(7) {
    const int row = setting.heads * setting.head_dim;
    source_ = numbers(static_cast<std::size_t>(setting.samples * setting.rows * (row + 8)));
    target_.resize(static_cast<std::size_t>(setting.samples * setting.rows * row));
    const auto weights = static_cast<std::size_t>(setting.norm == Norm::token ? row : setting.head_dim);
    weight_ = numbers(2 * weights);
    std::uniform_real_distribution<float> angle(-4, 4);
    for (Element number : weight_) weight_fp32_.push_back(to_float(number) + 0.001F);
    const std::size_t table = static_cast<std::size_t>((setting.rows + 5) * (setting.head_dim / 2));
    for (std::size_t i = 0; i < table; ++i) {
      const float turned = angle(random_);
      cosine_.push_back(std::cos(turned));
      sine_.push_back(std::sin(turned));
    }
    fill();
  }

  void run() {
    const int type = sizeof(Element) == 4            ? DIT_ELEMENT_FP32
                     : std::is_same_v<Element, Bf16> ? DIT_ELEMENT_BF16
                                                     : DIT_ELEMENT_FP16;
    prepare_on_host(job_, type);
  }

  // Greatest difference from double precision: of a number's own rounding (`half` of the spacing of numbers,
  // of its size at most), and of what fp32 loses at the row's greatest number.
  [[nodiscard]] double off(double half) const {
    double most = 0;
    for (int sample = 0; sample < setting_.samples; ++sample)
      for (int row = 0; row < setting_.rows; ++row) {
        const std::vector<double> expected = exact(sample, row);
        double scale = 0;
        for (const double number : expected) scale = std::max(scale, std::abs(number));
        for (std::size_t i = 0; i < expected.size(); ++i)
          most = std::max(most, std::abs(to_float(at(sample, row, i)) - expected[i]) /
                                    (std::abs(expected[i]) * half + scale * 0x1p-20));
      }
    return most;
  }

  [[nodiscard]] Element at(int sample, int row, std::size_t number) const {
    const auto width = static_cast<std::size_t>(setting_.heads * setting_.head_dim);
    return target_[static_cast<std::size_t>(sample * setting_.rows + row) * width + number];
  }
  [[nodiscard]] PrepareJob& job() { return job_; }
  [[nodiscard]] std::vector<Element>& target() { return target_; }

 private:
  std::vector<Element> numbers(std::size_t count) {
    std::normal_distribution<float> normal(0, 2);
    std::vector<Element> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(Rounded<Element>::of(normal(random_)));
    return all;
  }

  // Rows 1 and 2 of a sample are text, and the tables' rows of tokens 3 and later are the image's.
  void fill() {
    const int row = setting_.heads * setting_.head_dim;
    job_.source = source_.data();
    job_.batch = std::int64_t{setting_.rows} * (row + 8);
    job_.row = row + 8;
    job_.head = setting_.head_dim;
    job_.samples = setting_.samples;
    job_.rows = setting_.rows;
    job_.heads = setting_.heads;
    job_.head_dim = setting_.head_dim;
    job_.norm = setting_.norm;
    job_.rope = setting_.rope;
    job_.round_norm = setting_.round_norm;
    job_.weights_fp32 = setting_.weights_fp32;
    job_.epsilon = 1e-6F;
    const std::size_t half = weight_.size() / 2;
    job_.weight = setting_.weights_fp32 ? static_cast<const void*>(weight_fp32_.data()) : weight_.data();
    job_.text_weight = setting_.weights_fp32 ? static_cast<const void*>(&weight_fp32_[half]) : &weight_[half];
    job_.cosine = cosine_.data();
    job_.sine = sine_.data();
    job_.text_begin = 1;
    job_.text_end = 3;
    job_.text_token = -1;
    job_.image_token = 4;
    job_.parts = 1;
    job_.part[0] = {
        target_.data(), std::int64_t{setting_.rows} * row, row, setting_.head_dim, 0, setting_.rows, 0,
        setting_.heads};
  }

  [[nodiscard]] bool is_text(int row) const { return row >= 1 && row < 3; }
  [[nodiscard]] double weight(int row, int head, int i) const {
    const std::size_t index =
        (is_text(row) ? weight_.size() / 2 : 0) +
        static_cast<std::size_t>((setting_.norm == Norm::token ? head * setting_.head_dim : 0) + i);
    return setting_.weights_fp32 ? weight_fp32_[index] : to_float(weight_[index]);
  }

  [[nodiscard]] std::vector<double> exact(int sample, int row) const {
    const int dim = setting_.head_dim;
    std::vector<double> x;
    for (int i = 0; i < setting_.heads * dim; ++i)
      x.push_back(to_float(source_[static_cast<std::size_t>(sample * job_.batch + row * job_.row + i)]));
    std::vector<double> normed = x;
    for (int head = 0; head < setting_.heads && setting_.norm != Norm::none; ++head) {
      const int begin = setting_.norm == Norm::token ? 0 : head * dim;
      const int count = setting_.norm == Norm::token ? setting_.heads * dim : dim;
      double squares = 0;
      for (int i = begin; i < begin + count; ++i)
        squares += x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(i)];
      const double scale = 1 / std::sqrt(squares / count + 1e-6);
      for (int i = 0; i < dim; ++i) {
        double& number = normed[static_cast<std::size_t>(head * dim + i)];
        number *= scale * weight(row, head, i);
        if (setting_.round_norm) number = to_float(Rounded<Element>::of(static_cast<float>(number)));
      }
    }
    if (setting_.rope == Rope::none) return normed;
    std::vector<double> out = normed;
    const std::size_t token = static_cast<std::size_t>(is_text(row) ? row - 1 : row + 4);
    const int half = dim / 2;
    for (int head = 0; head < setting_.heads; ++head)
      for (int pair = 0; pair < half; ++pair) {
        const bool halves = setting_.rope == Rope::halves;
        const auto a = static_cast<std::size_t>(head * dim + (halves ? pair : 2 * pair));
        const std::size_t b = halves ? a + static_cast<std::size_t>(half) : a + 1;
        const double c = cosine_[token * static_cast<std::size_t>(half) + static_cast<std::size_t>(pair)];
        const double s = sine_[token * static_cast<std::size_t>(half) + static_cast<std::size_t>(pair)];
        out[a] = normed[a] * c - normed[b] * s;
        out[b] = normed[b] * c + normed[a] * s;
      }
    return out;
  }

  Setting setting_;
  std::mt19937 random_;
  std::vector<Element> source_, target_, weight_;
  std::vector<float> weight_fp32_, cosine_, sine_;
  PrepareJob job_{};
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const int dim : {2, 6, 30, 64, 72, 128, 256})
    for (const Norm norm : {Norm::none, Norm::head, Norm::token})
      for (const Rope rope : {Rope::none, Rope::interleaved, Rope::halves})
        for (const bool fp32 : {false, true}) settings.push_back({2, 5, 3, dim, norm, rope, false, fp32});
  return settings;
}

// One rounding at the end: half a unit, and what fp32 loses.
TEST(Prepare, IsDoublePrecisionRoundedOnce) {
  for (const Setting& setting : all_settings()) {
    Job<Bf16> bf16(setting);
    bf16.run();
    EXPECT_LE(bf16.off(0x1p-8), 1) << setting.head_dim;
    Job<Fp16> fp16(setting);
    fp16.run();
    EXPECT_LE(fp16.off(0x1p-11), 1) << setting.head_dim;
    Job<float> fp32(setting);
    fp32.run();
    EXPECT_LE(fp32.off(0x1p-24), 1) << setting.head_dim;
  }
}

TEST(Prepare, RoundsTheNormWhereAskedTo) {
  const Setting setting{1, 5, 2, 64, Norm::head, Rope::none, true, true};
  Job<Bf16> once(setting);
  once.run();
  EXPECT_LE(once.off(0x1p-7), 1);  // the double's own rounding may go the other way
  Setting turned = setting;
  turned.rope = Rope::interleaved;
  Job<Bf16> twice(turned), not_twice(turned);
  not_twice.job().round_norm = false;
  twice.run();
  not_twice.run();
  bool differ = false;
  for (std::size_t i = 0; i < twice.target().size(); ++i)
    differ = differ || twice.target()[i].bits != not_twice.target()[i].bits;
  EXPECT_TRUE(differ);
}

// In fours, or number by number where memory is not aligned for that.
TEST(Prepare, WideAndNarrowAccessGiveTheSameBits) {
  for (const Setting& setting : all_settings()) {
    Job<Bf16> wide(setting), narrow(setting);
    wide.run();
    std::vector<Bf16> elsewhere(narrow.target().size() + 1);
    narrow.job().part[0].target = &elsewhere[1];
    ASSERT_FALSE(is_wide(narrow.job(), sizeof(Bf16)));
    narrow.run();
    for (std::size_t i = 0; i < wide.target().size(); ++i)
      ASSERT_EQ(wide.target()[i].bits, elsewhere[i + 1].bits) << setting.head_dim;
  }
}

TEST(Prepare, NothingToDoCopiesBits) {
  Job<Bf16> job({1, 5, 3, 64, Norm::none, Rope::none, false, false});
  std::vector<Bf16> all(0x10000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  std::vector<Bf16> out(all.size());
  PrepareJob& how = job.job();
  how.source = all.data();
  how.samples = 1;
  how.rows = 1024;
  how.heads = 1;
  how.row = 64;
  how.part[0] = {out.data(), 0, 64, 64, 0, 1024, 0, 1};
  job.run();
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(out[i].bits, i);
}

// A row that several ranks want goes to all of them, and what nobody wants nowhere.
TEST(Prepare, PartsTakeTheirRowsAndHeads) {
  Job<float> whole({1, 5, 3, 8, Norm::head, Rope::halves, false, true});
  whole.run();
  Job<float> parted({1, 5, 3, 8, Norm::head, Rope::halves, false, true});
  std::vector<float> first(5 * 8, -1), second(3 * 2 * 8, -1);
  parted.job().parts = 2;
  parted.job().part[0] = {first.data(), 0, 8, 8, 0, 5, 1, 2};    // head 1 of all rows
  parted.job().part[1] = {second.data(), 0, 16, 8, 2, 5, 1, 3};  // heads 1 and 2 of rows 2 to 4
  parted.run();
  for (int row = 0; row < 5; ++row)
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_EQ(first[static_cast<std::size_t>(row) * 8 + i], whole.at(0, row, 8 + i));
  for (int row = 2; row < 5; ++row)
    for (std::size_t i = 0; i < 16; ++i)
      EXPECT_EQ(second[static_cast<std::size_t>(row - 2) * 16 + i], whole.at(0, row, 8 + i));
}

}  // namespace
}  // namespace dit
