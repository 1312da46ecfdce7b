// Loading of plugins: where they are looked for, and what is said of those that are not right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "exchange/exchange.hpp"
#include "exchange/linked_plugins.hpp"
#include "exchange/local/local_ranks.hpp"
#include "exchange/plugin_path.hpp"

namespace dit {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const std::string folder = DIT_BROKEN_DIR;

/// The search path of a test.
class Loader : public testing::Test {
 protected:
  Loader() { set_path(folder); }
  ~Loader() override { unsetenv("DIT_PLUGIN_PATH"); }
  static void set_path(const std::string& path) { setenv("DIT_PLUGIN_PATH", path.c_str(), 1); }
};

struct Refusal {
  dit_status status = DIT_OK;
  std::string words;
};

Refusal load(const std::string& name) {
  try {
    static_cast<void>(ExchangePlugin::load(name));
  } catch (const ExchangeError& error) {
    return {error.status(), error.what()};
  }
  return {};
}

std::string file(const std::string& name) {
  return folder + "/libdit-exchange-" + name + ".so";
}

TEST_F(Loader, LocalIsLinkedIn) {
  const ExchangePlugin plugin = ExchangePlugin::load("local");
  EXPECT_EQ(plugin.name(), "local");
  EXPECT_EQ(plugin.path(), "");
  EXPECT_EQ(ExchangePlugin::linked(dit_exchange_local_plugin_v1).name(), "local");
}

TEST_F(Loader, WhatALibraryLinksInIsFoundByItsName) {
  EXPECT_EQ(load("brought-along").status, DIT_ERROR_ARGUMENT);
  link_exchange_plugin("brought-along", dit_exchange_local_plugin_v1);
  EXPECT_EQ(ExchangePlugin::load("brought-along").path(), "");
  EXPECT_THAT(ExchangePlugin::available(), Contains("brought-along"));
  EXPECT_THAT(ExchangePlugin::available(), Contains("local"));
}

TEST_F(Loader, UnknownNameListsThePlacesAndThePlugins) {
  const Refusal refusal = load("nowhere");
  EXPECT_EQ(refusal.status, DIT_ERROR_ARGUMENT);
  EXPECT_THAT(refusal.words, StartsWith("there is no exchange plugin 'nowhere'; available: "));
  EXPECT_THAT(refusal.words, HasSubstr(", local"));
  EXPECT_THAT(refusal.words, HasSubstr("looked for:\n  " + file("nowhere") + "  (DIT_PLUGIN_PATH)\n"));
  EXPECT_THAT(refusal.words, HasSubstr("/libdit-exchange-nowhere.so  (folder of the program)\n"));
  EXPECT_THAT(refusal.words,
              HasSubstr("/lib/libdit-exchange-nowhere.so  (lib beside the program's folder)\n"));
  EXPECT_THAT(refusal.words, HasSubstr("  (install folder)"));
}

TEST_F(Loader, NamesThatAreNone) {
  for (const char* name : {"", "a b", "mpi.so", "mpi:tapa"})
    EXPECT_EQ(load(name).words,
              "'" + std::string(name) +
                  "' is not the name of an exchange plugin: expected letters, digits, - and _, or "
                  "a path with a slash");
}

TEST_F(Loader, PathThatIsNotThere) {
  EXPECT_EQ(load("./none.so").words,
            "exchange plugin ./none.so cannot be loaded: ./none.so: cannot open shared object file: No such "
            "file or "
            "directory");
}

TEST_F(Loader, DlopensWordsAreKept) {
  EXPECT_EQ(load("broken_garbage").words, "exchange plugin " + file("broken_garbage") +
                                              " cannot be loaded: " + file("broken_garbage") +
                                              ": file too short");
  EXPECT_EQ(load("broken_symbol").words, "exchange plugin " + file("broken_symbol") +
                                             " cannot be loaded: " + file("broken_symbol") +
                                             ": undefined symbol: a_function_of_another_library");
}

TEST_F(Loader, NoPlugin) {
  const Refusal refusal = load("broken_no_entry");
  EXPECT_EQ(refusal.status, DIT_ERROR_UNSUPPORTED);
  EXPECT_EQ(refusal.words,
            "exchange plugin " + file("broken_no_entry") +
                " has no function dit_exchange_plugin_v1: it is not an exchange plugin, or of another "
                "interface version");
}

TEST_F(Loader, TablesThatAreWrong) {
  const auto words = [](const std::string& name) {
    const Refusal refusal = load(name);
    const std::string begin = "exchange plugin " + file(name) + " ";
    EXPECT_EQ(refusal.status, DIT_ERROR_UNSUPPORTED);
    EXPECT_THAT(refusal.words, StartsWith(begin));
    return refusal.words.substr(std::min(begin.size(), refusal.words.size()));
  };
  EXPECT_EQ(words("broken_version"), "was built for version 7 of the exchange interface, expected 1");
  EXPECT_EQ(words("broken_refuses"), "does not serve version 1 of the exchange interface");
  EXPECT_EQ(words("broken_short_table"), "gave a table of 100 bytes, expected at least 160");
  EXPECT_EQ(words("broken_null_function"), "has a null function in its table: split");
  EXPECT_EQ(words("broken_no_name"), "has no name in its table");
}

TEST_F(Loader, LinkedInTablesAreCheckedToo) {
  const auto words = [](dit_exchange_entry entry) -> std::string {
    try {
      static_cast<void>(ExchangePlugin::linked(entry));
    } catch (const ExchangeError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(words(nullptr), "exchange plugin (linked in) has a null entry function");
  EXPECT_EQ(words([](uint32_t) -> const dit_exchange_plugin* { return nullptr; }),
            "exchange plugin (linked in) does not serve version 1 of the exchange interface");
}

TEST_F(Loader, OpenThatFails) {
  const auto words = [](const char* name) -> std::string {
    const ExchangePlugin plugin = ExchangePlugin::load(name);
    EXPECT_EQ(plugin.path(), file(name));
    try {
      const ExchangeContext context(plugin, {});
    } catch (const ExchangeError& error) {
      EXPECT_EQ(error.status(), DIT_ERROR_COMMUNICATION);
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(words("broken_open"), "exchange plugin broken: no network card has a cable");
  EXPECT_EQ(words("broken_silent"), "exchange plugin broken: open failed with status 3, without words");
}

TEST_F(Loader, AvailablePlugins) {
  const std::vector<std::string> names = ExchangePlugin::available();
  EXPECT_THAT(names, AllOf(Contains("local"), Contains("broken_open"), Contains("broken_garbage")));
  EXPECT_TRUE(std::ranges::is_sorted(names));
}

TEST_F(Loader, SearchPathKeepsItsOrder) {
  set_path("/b/..:::/c:/c/.:rel");
  const std::vector<PluginFolder> folders = plugin_folders();
  ASSERT_GE(folders.size(), 5u);
  EXPECT_EQ(folders[0].path, "/");
  EXPECT_EQ(folders[1].path, "/c");
  EXPECT_EQ(folders[2].path, std::filesystem::current_path() / "rel");
  EXPECT_EQ(folders[3].reason, "folder of the program");
  set_path("/nowhere:" + folder);
  EXPECT_EQ(load("broken_version").words.find("exchange plugin " + file("broken_version")), 0u);
}

}  // namespace
}  // namespace dit
