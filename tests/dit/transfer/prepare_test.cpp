// RMSNorm and RoPE as the host's path computes them: against double precision, and against the order that the
// header promises. The kernel is the same functions.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "prepare_job.hpp"

namespace dit {
namespace {

using test::all_settings;
using test::Job;
using test::Setting;

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
