#include "files/output_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <iterator>

#include "../dit/message_of.hpp"
#include "../dit/test_folder.hpp"

namespace files {
namespace {

using dit::message_of;
using dit::TestFolder;

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& text) {
  write_file(path, [&](std::ostream& out) { out << text; });
}

std::size_t files_in(const TestFolder& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

TEST(OutputFile, IsReplacedWholeOrNotAtAll) {
  const TestFolder folder;
  write(folder / "a", "old");
  EXPECT_EQ(message_of([&] {
              write_file(folder / "a", [](std::ostream& out) {
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

TEST(OutputFile, ALinkStays) {
  const TestFolder folder;
  write(folder / "a", "old");
  std::filesystem::create_symlink("a", folder / "link");
  write(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(content(folder / "a"), "new");
}

TEST(OutputFile, APipeStays) {
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

TEST(OutputFile, IsCheckedBeforeTheWork) {
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

struct stat facts_of(const std::filesystem::path& path) {
  struct stat facts {};
  EXPECT_EQ(::lstat(path.c_str(), &facts), 0) << path;
  return facts;
}

constexpr uid_t kOther = 65534;

// Whoever may write in the folder swaps the file, or the folder itself, after it was looked at.
TEST(OutputFile, ALinkThatComesMeanwhileIsReplaced) {
  const TestFolder folder;
  folder.file("thesis", "years of work");
  folder.file("a", "old");
  const OutputFile place(folder / "a");
  std::filesystem::remove(folder / "a");
  std::filesystem::create_symlink("thesis", folder / "a");
  EXPECT_EQ(message_of([&] { (void)place.open_regular(); }), "Too many levels of symbolic links");
  place.replace([](std::ostream& out) { out << "new"; });
  EXPECT_EQ(content(folder / "thesis"), "years of work");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "a"));
  EXPECT_EQ(content(folder / "a"), "new");
}

TEST(OutputFile, TheFolderIsOpenedOnce) {
  const TestFolder folder;
  std::filesystem::create_directory(folder / "shared");
  std::filesystem::create_directory(folder / "home");
  folder.file("home/a", "years of work");
  folder.file("shared/a", "old");
  const OutputFile place(folder / "shared/a");
  std::filesystem::rename(folder / "shared", folder / "moved");
  std::filesystem::create_symlink("home", folder / "shared");
  place.replace([](std::ostream& out) { out << "new"; });
  EXPECT_EQ(content(folder / "home/a"), "years of work");
  EXPECT_EQ(content(folder / "moved/a"), "new");
}

TEST(OutputFile, APipeThatBecameAFileIsNotWritten) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "a").c_str(), 0600), 0);
  const OutputFile place(folder / "a");
  ASSERT_TRUE(place.is_stream());
  folder.file("thesis", "years of work");
  std::filesystem::rename(folder / "thesis", folder / "a");
  EXPECT_EQ(message_of([&] { place.write_stream([](std::ostream& out) { out << "new"; }); }),
            "became a file");
  EXPECT_EQ(content(folder / "a"), "years of work");
}

TEST(OutputFile, AnotherUsersLinkIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's link";
  const TestFolder folder;
  folder.file("thesis", "years of work");
  for (const char* const target : {"thesis", "nothing", "/dev/null"}) {
    std::filesystem::remove(folder / "a");
    std::filesystem::create_symlink(target, folder / "a");
    ASSERT_EQ(::lchown((folder / "a").c_str(), kOther, kOther), 0);
    const std::string why = (folder / "a").string() + ": cannot be written: is a link of another user";
    EXPECT_EQ(message_of([&] { write(folder / "a", "new"); }), why);
    EXPECT_EQ(message_of([&] { check_writable(folder / "a"); }), why);
  }
  EXPECT_EQ(content(folder / "thesis"), "years of work");
  EXPECT_EQ(files_in(folder), 2U);
}

TEST(OutputFile, ALinkToNothingBecomesThat) {
  const TestFolder folder;
  std::filesystem::create_symlink("a", folder / "link");
  write(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(content(folder / "a"), "new");
  std::filesystem::create_symlink("round", folder / "round");
  EXPECT_EQ(message_of([&] { write(folder / "round", "new"); }),
            (folder / "round").string() + ": cannot be written: Too many levels of symbolic links");
}

TEST(OutputFile, RightsStay) {
  const TestFolder folder;
  const mode_t before = ::umask(027);
  write(folder / "new", "a");
  OutputFile(folder / "private").replace([](std::ostream& out) { out << "a"; }, 0600);
  EXPECT_EQ(facts_of(folder / "new").st_mode & 07777U, 0640U);
  EXPECT_EQ(facts_of(folder / "private").st_mode & 07777U, 0600U);
  for (const mode_t rights : {0600U, 0664U, 0666U, 0444U}) {
    folder.file("a", "old");
    ASSERT_EQ(::chmod((folder / "a").c_str(), rights), 0);
    write(folder / "a", "new");
    EXPECT_EQ(facts_of(folder / "a").st_mode & 07777U, rights);
  }
  ::umask(before);
  if (::geteuid() != 0) return;
  folder.file("a", "old");
  ASSERT_EQ(::chown((folder / "a").c_str(), kOther, kOther), 0);
  ASSERT_EQ(::chmod((folder / "a").c_str(), 0666), 0);
  write(folder / "a", "new");
  EXPECT_EQ(facts_of(folder / "a").st_mode & 07777U, 0664U)
      << "another user lets nobody write to what is ours";
  EXPECT_EQ(facts_of(folder / "a").st_gid, kOther);
}

TEST(OutputFile, AFolderIsRefusedBeforeTheWork) {
  const TestFolder folder;
  for (const std::string name : {"", "."}) {
    const std::filesystem::path path = folder / name;
    EXPECT_EQ(message_of([&] { check_writable(path); }), path.string() + ": cannot be written: is a folder");
  }
}

TEST(OutputFile, TheStandardOutputIsAPath) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  write("/dev/fd/" + std::to_string(ends[1]), "words");
  std::array<char, 16> read{};
  EXPECT_EQ(::read(ends[0], read.data(), read.size()), 5);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(InputFile, NothingIsWaitedFor) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(message_of([&] { (void)read_text(folder / "pipe", 9); }), "is no regular file");
  EXPECT_EQ(message_of([&] { (void)read_text("/dev/zero", 9); }), "is no regular file");
  EXPECT_EQ(message_of([&] { (void)read_text(folder.path(), 9); }), "is a folder");
  EXPECT_EQ(message_of([&] { (void)read_text(folder / "none", 9); }), "No such file or directory");
  folder.file("a", "123456789");
  EXPECT_EQ(read_text(folder / "a", 9), "123456789");
  EXPECT_EQ(message_of([&] { (void)read_text(folder / "a", 8); }), "more than 8 bytes");
  // More than there is memory for, if it were read to see that.
  constexpr std::size_t kMost = std::size_t{1} << 42;
  std::filesystem::resize_file(folder / "a", kMost + 1);
  EXPECT_EQ(message_of([&] { (void)read_text(folder / "a", kMost); }), "more than 4398046511104 bytes");
  EXPECT_FALSE(read_text("/proc/self/stat", 4096).empty()) << "a file of the kernel has no size";
}

}  // namespace
}  // namespace files
