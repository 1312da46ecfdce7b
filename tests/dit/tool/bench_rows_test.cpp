#include "bench_rows.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "../message_of.hpp"
#include "../test_folder.hpp"

namespace dit::tool {
namespace {

BenchRow row(const std::string& text) {
  return parse_rows(text, {}).front();
}

TEST(Rows, OfWords) {
  const BenchRow plain = row("a=local/v-first/bf16");
  EXPECT_EQ(plain.name, "a");
  EXPECT_EQ(plain.plugin, "local");
  EXPECT_EQ(plain.schedule, Schedule::v_first);
  EXPECT_EQ(plain.policy.preset, "bf16");
  EXPECT_FALSE(plain.guidance_mode);
  const BenchRow full = row("a=tapa/pipelined/v-major:warmup=2,ratio=0.5/sequential/3");
  EXPECT_EQ(full.plugin, "tapa");
  EXPECT_TRUE(full.policy.v_major);
  EXPECT_EQ(full.guidance_mode, GuidanceMode::sequential);
  EXPECT_EQ(full.head_groups, 3);
  EXPECT_FALSE(row("a=local/auto/exact/auto/2").schedule);
}

TEST(Rows, OfPaths) {
  const TestFolder folder;
  const std::string file =
      folder.file("mine.json", R"({"format": "dit-wire-policy", "version": 1, "name": "mine",
      "rules": [{"mode": "int8"}]})");
  const auto check = [](const BenchRow& found, const std::string& plugin, int groups) {
    EXPECT_EQ(found.plugin, plugin);
    EXPECT_EQ(found.schedule, Schedule::flat);
    ASSERT_TRUE(found.policy.wire);
    EXPECT_EQ(found.policy.wire->name, "mine");
    EXPECT_EQ(found.head_groups, groups);
  };
  check(row("a=local/flat/" + file), "local", 1);
  check(row("a=local/flat/" + file + "/batched/2"), "local", 2);
  check(row("a=/opt/lib/libdit-exchange-self.so/flat/" + file + "/parallel"),
        "/opt/lib/libdit-exchange-self.so", 1);
  check(row("a=./libdit-exchange-self.so/flat/" + file), "./libdit-exchange-self.so", 1);
  EXPECT_EQ(row("a=local/flat/" + file + "/parallel").guidance_mode, GuidanceMode::parallel);
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  std::filesystem::create_directory("batched");
  std::filesystem::copy_file("mine.json", "batched/mine.json");
  check(row("a=local/flat/mine.json/batched/2"), "local", 2);
  check(row("a=local/flat/./mine.json"), "local", 1);
  check(row("a=local/flat/batched/mine.json"), "local", 1);
  std::filesystem::current_path(here);
}

TEST(Rows, AreRefusedByName) {
  const auto refusal = [](const std::string& text) { return misuse_of([&] { (void)row(text); }); };
  const std::string form = "expected name=plugin/schedule/policy[/guidance-mode[/head-groups]]";
  for (const std::string text :
       {"a=local/flat", "=local/flat/exact", "a=/flat/exact", "a=local/flat/bf16/batched/2/3"}) {
    EXPECT_EQ(refusal(text), "--rows: \"" + text + "\", " + form);
  }
  EXPECT_EQ(refusal("a=local/quick/exact"),
            "schedule \"quick\" is not known: expected one of flat, v-first, pipelined");
  EXPECT_EQ(refusal("a=local/flat/exact/batched/0"),
            "--rows: head groups \"0\" of a, expected a whole number from 1 to 1024");
  EXPECT_NE(refusal("a=local/flat/exact/quick").find("quick"), std::string::npos);
  EXPECT_NE(refusal("a=local/flat/best").find("--policy is \"best\""), std::string::npos);
}

}  // namespace
}  // namespace dit::tool
