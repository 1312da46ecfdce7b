#include "text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace tapa::preload {
namespace {

TEST(Text, AppendsWordsAndNumbers) {
  Line text = "rank ";
  text.add(0, ", ", std::string_view("10 "), -1, Line(" and "), std::numeric_limits<int>::min());
  EXPECT_EQ(std::string(text.c_str()), "rank 0, 10 -1 and -2147483648");
  EXPECT_EQ(std::string_view(text), text.c_str());
  EXPECT_FALSE(text.empty());
  EXPECT_TRUE(Line().empty());
}

TEST(Text, CutsWhatDoesNotFit) {
  Text<4> text = "abc";
  text += "def";
  EXPECT_EQ(std::string(text.c_str()), "abcd");
  text.add("x", 7);
  EXPECT_EQ(std::string_view(text), "abcd");
}

}  // namespace
}  // namespace tapa::preload
