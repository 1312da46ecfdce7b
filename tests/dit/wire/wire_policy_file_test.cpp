#include "wire/wire_policy_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "wire/v_major.hpp"

namespace dit {
namespace {

constexpr const char* kHead = R"({"format": "dit-wire-policy", "version": 1, "rules": [)";

WirePolicy parsed(const std::string& text) {
  return parse_wire_policy(text, "file");
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parsed(text));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(WirePolicyFile, PresetsComeBack) {
  for (const std::string& name : wire_preset_names()) {
    EXPECT_EQ(parsed(to_json(wire_preset(name, 50))), wire_preset(name, 50));
  }
  for (const char* text : {"v-major", "v-major:format=residual-int4,ratio=0.3"}) {
    const WirePolicy policy = wire_policy_of(parse_v_major(text), 50);
    EXPECT_EQ(parsed(to_json(policy)), policy);
  }
}

TEST(WirePolicyFile, TokensAreTextImageOrAll) {
  EXPECT_EQ(parsed(std::string(kHead) + R"({"mode": "fp8", "tokens": "text"}]})").rules[0].tokens,
            TokenPart::text);
  EXPECT_EQ(parsed(std::string(kHead) + R"({"mode": "fp8"}]})").rules[0].tokens, TokenPart::all);
  const std::string wrong = error_of(std::string(kHead) + R"({"mode": "fp8", "tokens": "words"}]})");
  EXPECT_NE(wrong.find("expected text, image or all"), std::string::npos) << wrong;
  const std::string empty = error_of(std::string(kHead) + R"({"mode": "fp8", "tokens": ""}]})");
  EXPECT_NE(empty.find("expected text, image or all"), std::string::npos) << empty;
  const std::string both =
      error_of(std::string(kHead) + R"({"mode": "fp8", "tokens": "text"}, {"mode": "v-major 0.5 fp8"}]})");
  EXPECT_NE(both.find("rules[1].mode"), std::string::npos) << both;
  EXPECT_NE(both.find("no v-major in a policy with rules for text or image tokens"), std::string::npos)
      << both;
}

TEST(WirePolicyFile, EveryFieldComesBack) {
  WirePolicy policy;
  policy.name = "all";
  policy.momentum = 0.3F;
  policy.most_age = 7;
  policy.guard = 0.25;
  policy.off = {"rack", "world"};
  WireRule rule;
  rule.mode = parse_wire_mode("rows 0.3 residual int4");
  rule.tensors = {AttentionTensor::output, AttentionTensor::query};
  rule.level = "rack";
  rule.layers = {1, -2};
  rule.steps = {-5, -1};
  rule.every = 3;
  rule.branch = 0;
  rule.tokens = TokenPart::image;
  policy.rules = {rule, WireRule{}};
  EXPECT_EQ(parsed(to_json(policy)), policy);
  const std::string path = ::testing::TempDir() + "/dit_policy.json";
  std::ofstream(path) << to_json(policy);
  EXPECT_EQ(read_wire_policy(path), policy);
  std::filesystem::remove(path);
  EXPECT_THROW(static_cast<void>(read_wire_policy(path + ".none")), std::runtime_error);
}

TEST(WirePolicyFile, RefusesWhatItDoesNotKnow) {
  const std::string head = kHead;
  EXPECT_EQ(error_of(head + "]}"), "no error");
  EXPECT_EQ(error_of(head + R"({"mode": "fp8"}]})"), "no error");
  EXPECT_NE(error_of("[]"), "no error");
  EXPECT_NE(error_of("{"), "no error");
  EXPECT_NE(error_of(R"({"format": "other", "version": 1, "rules": []})").find("dit-wire-policy"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"format": "dit-wire-policy", "version": 2, "rules": []})").find("version"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"format": "dit-wire-policy", "version": 1})").find("rules"), std::string::npos);
  EXPECT_NE(error_of(head + R"({}]})").find("rules[0]: mode"), std::string::npos);
  EXPECT_NE(error_of(head + R"({"mode": "fp9"}]})").find("fp9"), std::string::npos);
  for (const char* rest :
       {R"("colour": 1)", R"("tensors": [])", R"("tensors": ["x"])", R"("tensors": ["q", "q"])",
        R"("tensors": [1])", R"("layers": [1])", R"("layers": [1.5, 2])", R"("layers": [5, 4])",
        R"("steps": "all")", R"("steps": [1e300, 4])", R"("every": 0)", R"("every": null)", R"("branch": 2)",
        R"("level": 4)"}) {
    EXPECT_NE(error_of(head + R"({"mode": "fp8", )" + rest + "}]}"), "no error") << rest;
  }
  for (const char* rest : {R"("momentum": 2)", R"("momentum": "a")", R"("most_age": -1)", R"("guard": -1)",
                           R"("name": 3)", R"("rules": [])", R"("off": "world")", R"("off": [1])"}) {
    EXPECT_NE(error_of(head + "], " + rest + "}"), "no error") << rest;
  }
}

}  // namespace
}  // namespace dit
