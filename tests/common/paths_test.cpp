#include "files/paths.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace files {
namespace {

namespace fs = std::filesystem;

TEST(Paths, AreKnownFromTheLoading) {
  const char* const named = std::getenv("PROBE");
  ASSERT_NE(named, nullptr) << "expected PROBE, the library that says where it lies";
  const fs::path probe = named;
  const fs::path before = fs::current_path();
  fs::current_path(probe.parent_path());
  void* const library = dlopen(("./" + probe.filename().string()).c_str(), RTLD_NOW | RTLD_LOCAL);
  fs::current_path("/");
  ASSERT_NE(library, nullptr) << dlerror();
  const auto ask = [&](const char* name) {
    return fs::path(reinterpret_cast<const char* (*)()>(dlsym(library, name))());
  };
  EXPECT_EQ(ask("own_folder"), fs::canonical(probe.parent_path()));
  EXPECT_TRUE(fs::equivalent(ask("first_folder"), probe.parent_path())) << ask("first_folder");
  fs::current_path(before);
}

/// Not the folder into which the program goes later.
TEST(Paths, ARelativeOneIsNoneWhereTheFirstFolderHasNoName) {
  const fs::path before = fs::current_path();
  const fs::path gone = fs::temp_directory_path() / ("gone-" + std::to_string(::getpid()));
  const fs::path copy = gone.string() + ".so";  // which is loaded anew
  fs::copy_file(std::getenv("PROBE"), copy);
  fs::create_directory(gone);
  fs::current_path(gone);
  fs::remove(gone);
  void* const library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  fs::current_path(before);
  fs::remove(copy);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto ask = [&](const char* name) {
    return std::string(reinterpret_cast<const char* (*)()>(dlsym(library, name))());
  };
  EXPECT_EQ(ask("relative"), "");
  EXPECT_EQ(ask("own_folder"), fs::canonical(copy.parent_path()));
}

// What the loader calls a program is what its caller did: a name on PATH has no folder, and that would be the
// current one.
TEST(Paths, AProgramIsNoLibrary) {
  EXPECT_EQ(library_folder(), "");
  EXPECT_EQ(program_folder(), fs::canonical("/proc/self/exe").parent_path());
}

TEST(Paths, BeginInTheFirstFolder) {
  const fs::path before = fs::current_path();
  fs::current_path("/");
  EXPECT_EQ(from_first_folder("a/b"), before / "a/b");
  EXPECT_EQ(from_first_folder("/a"), "/a");
  fs::current_path(before);
}

}  // namespace
}  // namespace files
