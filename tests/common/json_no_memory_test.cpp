// JSON that is read where there is no memory for one of its pieces, each in turn: values ask for some even
// when their lives end, and would end the process without.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "../run/refused_memory.hpp"
#include "json/strict_json.hpp"
#include "topology/json_reader.hpp"

namespace {

template <class Parse>
[[noreturn]] void parse_again_and_again(const Parse& parse) {
  has_reserve = true;
  const std::string text = R"({"a": [[1, {"b": 2}], [3]], "c": {"d": ["e"]}})";
  for (int turn = 0;; ++turn) {
    const Refusing refusing(1, turn, 1);
    bool right = true;  // or an error
    try {
      right = parse(text).at("c").at("d").at(0) == "e";
    } catch (const std::bad_alloc&) {
    }
    if (!right || !Refusing::some()) std::_Exit(right && turn > 30 ? 0 : 1);
  }
}

TEST(JsonNoMemory, OfLibtapaEndsNoProcess) {
  const auto parse = [](const std::string& text) { return tapa::parse_json(text, "a test", text.size()); };
  EXPECT_EXIT(parse_again_and_again(parse), testing::ExitedWithCode(0), "");
}

TEST(JsonNoMemory, OfLibditEndsNoProcess) {
  const auto parse = [](const std::string& text) { return dit::parse_strict_json(text, "a test"); };
  EXPECT_EXIT(parse_again_and_again(parse), testing::ExitedWithCode(0), "");
}

}  // namespace
