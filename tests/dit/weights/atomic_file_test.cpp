#include "weights/atomic_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "../message_of.hpp"
#include "../test_folder.hpp"

namespace dit {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& text) {
  write_atomically(path, [&](std::ostream& out) { out << text; });
}

std::size_t files_in(const TestFolder& folder) {
  const std::filesystem::directory_iterator all(folder.path());
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(AtomicFile, IsReplacedWholeOrNotAtAll) {
  const TestFolder folder;
  write(folder / "a", "old");
  EXPECT_EQ(message_of([&] {
              write_atomically(folder / "a", [](std::ostream& out) {
                out << "ne";
                throw std::runtime_error("half way");
              });
            }),
            "half way");
  EXPECT_EQ(content(folder / "a"), "old");
  write(folder / "a", "new");
  EXPECT_EQ(content(folder / "a"), "new");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(AtomicFile, ALinkStays) {
  const TestFolder folder;
  write(folder / "a", "old");
  std::filesystem::create_symlink("a", folder / "link");
  write(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(content(folder / "a"), "new");
}

TEST(AtomicFile, APipeStays) {
  const TestFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  check_writable(pipe);
  write(pipe, "words");
  std::array<char, 16> read{};
  EXPECT_EQ(::read(reader, read.data(), read.size()), 5);
  ::close(reader);
  EXPECT_STREQ(read.data(), "words");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(AtomicFile, IsCheckedBeforeTheWork) {
  const TestFolder folder;
  const std::filesystem::path lost = folder / "no/a";
  EXPECT_EQ(message_of([&] { check_writable(lost); }),
            lost.string() + ": cannot be written: No such file or directory");
  write(folder / "a", "old");
  check_writable(folder / "a");
  EXPECT_EQ(content(folder / "a"), "old");
  check_writable(folder / "b");
  EXPECT_EQ(files_in(folder), 1U);
}

}  // namespace
}  // namespace dit
