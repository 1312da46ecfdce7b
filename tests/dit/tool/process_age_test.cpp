#include "process_age.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace dit::tool {
namespace {

constexpr const char* kBehindName = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";

TEST(ProcessAge, ReadsTheTicksBehindAnyName) {
  for (const char* name : {"cat", "a b", "(", ")", ") S 1 2 3 (", ""}) {
    EXPECT_EQ(start_ticks("77 (" + std::string(name) + ")" + kBehindName), 4711) << name;
  }
}

TEST(ProcessAge, RefusesOtherTexts) {
  for (const char* text :
       {"", ")", "1 (cat", "1 (cat) S 1 2 3", "1 (cat) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20",
        "1 (cat) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 ",
        "1 (cat) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 -1"}) {
    EXPECT_FALSE(start_ticks(text)) << text;
  }
}

TEST(ProcessAge, GrowsFromTheProcesssBeginning) {
  const double age = process_age();
  EXPECT_GE(age, 0);
  EXPECT_LT(age, 100);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double later = process_age();
  EXPECT_GE(later - age, 0.05);
  EXPECT_LT(later - age, 10);
}

}  // namespace
}  // namespace dit::tool
