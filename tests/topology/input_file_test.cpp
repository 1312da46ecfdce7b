#include "topology/input_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace tapa {
namespace {

std::string message(const std::string& path, std::size_t most) {
  try {
    (void)read_input_file(path, most, "option \"x\" is \"" + path + "\"", "a file of x");
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(InputFile, IsReadToItsLimit) {
  const std::string path = testing::TempDir() + "input_file_test";
  const std::string text = std::string(70000, 'a') + std::string("\0b", 2);
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(read_input_file(path, text.size(), path, "a file"), text);
  EXPECT_EQ(message(path, text.size() - 1),
            "option \"x\" is \"" + path + "\": cannot be read: more than 70001 bytes, expected a file of x");
  std::remove(path.c_str());
}

TEST(InputFile, MustBeAFile) {
  EXPECT_EQ(message("/nonexistent/file", 10),
            "option \"x\" is \"/nonexistent/file\": cannot be read: No such file or directory, expected a "
            "file of x");
  EXPECT_EQ(message("/", 10), "option \"x\" is \"/\": cannot be read: is a folder, expected a file of x");
  EXPECT_EQ(message("/dev/zero", 10),
            "option \"x\" is \"/dev/zero\": cannot be read: is no regular file, expected a file of x");
}

}  // namespace
}  // namespace tapa
