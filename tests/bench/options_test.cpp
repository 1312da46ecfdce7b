#include "common/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tapa::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Parsed run(std::vector<std::string> words, Kind kind = Kind::alltoall) {
  words.insert(words.begin(), "bench");
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  return parse(kind, "bench", "a title", static_cast<int>(argv.size()), argv.data());
}

TEST(Options, DefaultsAreOsus) {
  const Parsed p = run({});
  ASSERT_FALSE(p.exit_code);
  EXPECT_EQ(p.options.min_bytes, 1U);
  EXPECT_EQ(p.options.max_bytes, 1U << 20);
  EXPECT_EQ(p.options.step, 2);
  EXPECT_FALSE(p.options.iterations);
  EXPECT_FALSE(p.options.nic_rate);
}

TEST(Options, MessageSizesAsInOsu) {
  EXPECT_THAT(sizes(run({"-m", "128"}).options, 1), ElementsAre(1, 2, 4, 8, 16, 32, 64, 128));
  EXPECT_THAT(sizes(run({"-m", "16:100"}).options, 1), ElementsAre(16, 32, 64));
  EXPECT_THAT(sizes(run({"-m", "0:4"}).options, 1), ElementsAre(0, 1, 2, 4));
  EXPECT_EQ(run({"-m", "64:"}).options.max_bytes, 1U << 20);
  EXPECT_EQ(run({"--message-size", "2:128"}).options.min_bytes, 2U);
  EXPECT_THAT(sizes(run({"-m", "16:4096", "--step", "16"}).options, 1), ElementsAre(16, 256, 4096));
}

TEST(Options, FormsOfCalls) {
  EXPECT_EQ(run({}, Kind::alltoallv).options.form, Form::blocking);
  EXPECT_EQ(run({"--form", "nonblocking"}, Kind::alltoallw).options.form, Form::nonblocking);
  EXPECT_EQ(run({"--form", "persistent"}, Kind::alltoallv).options.form, Form::persistent);
  EXPECT_NE(run({"--form", "fast"}, Kind::alltoallv).exit_code.value_or(0), 0);
  EXPECT_NE(run({"--form", "persistent"}, Kind::alltoall).exit_code.value_or(0), 0);  // a program of its own
  EXPECT_THAT(run({"-d", "cuda", "--form", "persistent"}, Kind::alltoallv).message,
              HasSubstr("--accelerator: needs --form blocking"));
}

TEST(Options, MemoryLimitCutsSizes) {
  EXPECT_THAT(sizes(run({"-m", "16:64", "-M", "128"}).options, 4), ElementsAre(16, 32));
}

TEST(Options, OsusShortOptions) {
  const Options o = run({"-i", "10", "-x", "0", "-f", "-c", "-u", "3", "-l"}).options;
  EXPECT_EQ(o.iterations, 10);
  EXPECT_EQ(o.warmup, 0);
  EXPECT_TRUE(o.full);
  EXPECT_TRUE(o.validate);
  EXPECT_EQ(o.validation_calls, 3);
  EXPECT_TRUE(o.in_place);
  EXPECT_EQ(run({"-t", "100"}, Kind::ialltoall).options.test_calls, 100);
}

TEST(Options, OurOptions) {
  const Options o = run({"--versus", "mpi", "--plan", "linear", "--plan", "bruck", "--json", "f",
                         "--nic-bound", "2x20mbit"})
                        .options;
  EXPECT_TRUE(o.versus_mpi);
  EXPECT_THAT(o.plans, ElementsAre("linear", "bruck"));
  EXPECT_EQ(o.json, "f");
  ASSERT_TRUE(o.nic_rate);
  EXPECT_EQ(o.nic_rate->nics, 2);
  EXPECT_EQ(run({}).options.burst, 1);
  EXPECT_EQ(run({"--burst", "20"}, Kind::alltoallv).options.burst, 20);
  EXPECT_NE(run({"--burst", "0"}).exit_code.value_or(0), 0);
  EXPECT_NE(run({"--burst", "2"}, Kind::ialltoall).exit_code.value_or(0), 0);
}

TEST(Options, BuffersOnAGpu) {
  EXPECT_FALSE(run({}).options.on_gpu);
  for (const char* const name : {"-d", "--accelerator"}) {
    EXPECT_TRUE(run({name, "cuda"}).options.on_gpu);
    EXPECT_TRUE(run({name, "cuda"}, Kind::persistent).options.on_gpu);
  }
  EXPECT_NE(run({"-d", "rocm"}).exit_code.value_or(0), 0);
  EXPECT_NE(run({"-d", "cuda"}, Kind::select).exit_code.value_or(0), 0);
  const Options o = run({"-d", "cuda", "--versus", "nccl", "--nccl", "l.so"}).options;
  EXPECT_TRUE(o.versus_nccl && o.versus() && !o.versus_mpi);
  EXPECT_EQ(o.nccl, "l.so");
  EXPECT_THAT(run({"--versus", "nccl"}).message, HasSubstr("--versus: nccl needs -d cuda"));
  EXPECT_THAT(run({"--versus", "nccl", "-d", "cuda", "-l"}).message, HasSubstr("--in-place: "));
  EXPECT_NE(run({"-d", "cuda", "--versus", "nccl"}, Kind::ialltoall).exit_code.value_or(0), 0);
  EXPECT_THAT(run({"-d", "cuda", "--elements", "gaps", "-m", "8:64"}).message, HasSubstr("--accelerator: "));
  EXPECT_THAT(run({"-d", "cuda", "--buffers", "registered"}).message, HasSubstr("--accelerator: "));
}

TEST(Options, NicRateFromTheEnvironment) {
  setenv("TAPA_NIC_RATE", "100mbit", 1);
  const Parsed p = run({});
  setenv("TAPA_NIC_RATE", "much", 1);
  const Parsed wrong = run({});
  unsetenv("TAPA_NIC_RATE");
  ASSERT_TRUE(p.options.nic_rate);
  EXPECT_DOUBLE_EQ(p.options.nic_rate->bytes_per_second, 12.5e6);
  EXPECT_TRUE(wrong.exit_code);
  EXPECT_THAT(wrong.message, HasSubstr("'much'"));
}

struct Wrong {
  std::vector<std::string> words;
  const char* says;
};

TEST(Options, WrongCommandLinesAreExplained) {
  const std::vector<Wrong> table{
      {{"-m", "x"}, "--message-size: 'x': expected [MIN:]MAX in bytes, MIN <= MAX"},
      {{"-m", "8:4"}, "--message-size: '8:4': expected [MIN:]MAX in bytes, MIN <= MAX"},
      {{"-m", "-4"}, "--message-size: '-4': expected"},
      {{"-m", "1:2:3"}, "--message-size: '1:2:3': expected"},
      {{"-m", "99999999999999999999"}, "--message-size: '99999999999999999999': expected"},
      {{"-i", "0"}, "--iterations: Value 0 not in range"},
      {{"-i", "many"}, "--iterations"},
      {{"-x", "-1"}, "--warmup: Value -1 not in range"},
      {{"--step", "1"}, "--step: Value 1 not in range"},
      {{"--time", "0"}, "--time: Value 0 not in range"},
      {{"--library", "nccl"}, "--library: nccl not in {tapa,mpi}"},
      {{"--versus", "rccl"}, "--versus: rccl not in {mpi,nccl}"},
      {{"--json", "f"}, "--json: needs --versus mpi or nccl"},
      {{"--plan", "linear"}, "--plan: needs --versus mpi or nccl"},
      {{"--nic-bound", "7"}, "--nic-bound: NIC rate '7': expected"},
      {{"--late", "-1"}, "--late: Value -1 not in range"},
      {{"--rows", "4"}, "--rows"},
      {{"stray"}, "stray"},
  };
  for (const Wrong& w : table) {
    const Parsed p = run(w.words);
    ASSERT_TRUE(p.exit_code) << w.says;
    EXPECT_NE(*p.exit_code, 0);
    EXPECT_THAT(p.message, HasSubstr(w.says));
  }
}

TEST(Options, HelpAndVersionEndWithZero) {
  EXPECT_EQ(run({"-h"}).exit_code, 0);
  EXPECT_THAT(run({"-h"}).message, HasSubstr("--message-size"));
  EXPECT_EQ(run({"-v"}).exit_code, 0);
  EXPECT_THAT(run({"-v"}).message, HasSubstr("bench 0."));
}

}  // namespace
}  // namespace tapa::bench
