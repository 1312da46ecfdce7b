#include "exchange/plugin_config.hpp"

#include <gtest/gtest.h>

namespace dit {
namespace {

std::string error_of(const char* text) {
  try {
    const PluginConfig config(text, {"rate", "ranks"});
    static_cast<void>(config.integer("ranks", 1, 1, 64));
    static_cast<void>(config.number("rate", 0, 0));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(PluginConfig, ReadsValues) {
  const PluginConfig config("rate=1.5e6,ranks=3", {"rate", "ranks", "name"});
  EXPECT_EQ(config.integer("ranks", 1, 1, 64), 3);
  EXPECT_EQ(config.number("rate", 0, 0), 1.5e6);
  EXPECT_EQ(config.text("name", "none"), "none");
  EXPECT_TRUE(config.has("rate"));
  EXPECT_FALSE(config.has("name"));
}

TEST(PluginConfig, NothingGiven) {
  EXPECT_EQ(error_of(nullptr), "");
  EXPECT_EQ(error_of(""), "");
}

TEST(PluginConfig, Misuse) {
  EXPECT_EQ(error_of("rates=3"), "config has the unknown key 'rates', known keys: rate, ranks");
  EXPECT_EQ(error_of("rate"), "config has 'rate', expected key=value");
  EXPECT_EQ(error_of("=3"), "config has '=3', expected key=value");
  EXPECT_EQ(error_of("rate=1,,ranks=2"), "config has '', expected key=value");
  EXPECT_EQ(error_of("rate=1,rate=2"), "config has the key 'rate' twice");
  EXPECT_EQ(error_of("ranks=0"), "config has ranks=0, expected a whole number from 1 to 64");
  EXPECT_EQ(error_of("ranks=3x"), "config has ranks=3x, expected a whole number from 1 to 64");
  EXPECT_EQ(error_of("rate=nan"), "config has rate=nan, expected a number of at least 0.000000");
  EXPECT_EQ(error_of("rate=-1"), "config has rate=-1, expected a number of at least 0.000000");
}

}  // namespace
}  // namespace dit
