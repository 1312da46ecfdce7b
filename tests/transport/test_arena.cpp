// Memory that other processes map: who finds what, and what a process sees of another's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "transport/arena.hpp"
#include "transport/memory_file.hpp"

namespace tapa {
namespace {

std::uint64_t address(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

TEST(Arenas, FindsWhatLiesInOneAllocation) {
  Arenas arenas;
  auto* const memory = static_cast<std::byte*>(arenas.allocate(100'000));
  ASSERT_NE(memory, nullptr);
  std::memset(memory, 1, 100'000);
  const ArenaKey key = arenas.find(memory, 100'000);
  EXPECT_NE(key, 0U);
  EXPECT_EQ(arenas.find(memory + 99'999, 1), key);
  EXPECT_EQ(arenas.find(memory + 1, 100'000), 0U);
  EXPECT_EQ(arenas.find(memory - 1, 1), 0U);
  EXPECT_EQ(arenas.find(memory + 100'000, 1), 0U);
  EXPECT_EQ(arenas.find(memory + 1, ~std::size_t{0}), 0U);
  EXPECT_TRUE(arenas.free(memory));
  EXPECT_FALSE(arenas.free(memory));  // NOLINT: not the C library's free
  EXPECT_EQ(arenas.find(memory, 1), 0U);
}

TEST(Arenas, ShortOnesAndTooManyAreOrdinaryMemory) {
  Arenas arenas;
  void* const empty = arenas.allocate(0);
  void* const brief = arenas.allocate(100);
  EXPECT_NE(empty, nullptr);
  EXPECT_EQ(arenas.find(brief, 100), 0U);
  std::vector<void*> many;
  for (std::size_t i = 0; i <= Arenas::kMost; ++i) many.push_back(arenas.allocate(Arenas::kShortest));
  EXPECT_NE(arenas.find(many.front(), 1), 0U);
  EXPECT_EQ(arenas.find(many.back(), 1), 0U);
  std::memset(many.back(), 1, Arenas::kShortest);
  for (void* memory : many) EXPECT_TRUE(arenas.free(memory));
  EXPECT_TRUE(arenas.free(empty));
  EXPECT_TRUE(arenas.free(brief));
}

TEST(ArenaViews, SeeTheBytesOfAnotherProcessAndNothingElse) {
  auto* const told = static_cast<std::uint64_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Arenas arenas;
    auto* const memory = static_cast<char*>(arenas.allocate(200'000));
    std::memcpy(memory + 150'000, "there", sizeof "there");
    told[0] = address(memory);
    told[1] = arenas.find(memory, 1);
    char c = 0;
    if (write(ready[1], &c, 1) != 1 || read(done[0], &c, 1) != 1) _exit(1);
    _exit(0);
  }
  char c = 0;
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  ArenaViews views;
  const std::byte* const seen = views.view(child, told[1], told[0] + 150'000, 6);
  ASSERT_NE(seen, nullptr);
  EXPECT_STREQ(reinterpret_cast<const char*>(seen), "there");
  EXPECT_EQ(views.view(child, told[1], told[0] + 199'999, 2), nullptr) << "beyond its end";
  EXPECT_EQ(views.view(child, told[1], told[0] - 1, 1), nullptr) << "before its beginning";
  EXPECT_EQ(views.view(child, told[1], told[0], ~std::size_t{0}), nullptr);
  EXPECT_EQ(views.view(child, told[1] + (ArenaKey{1} << 32), told[0], 1), nullptr) << "another allocation";
  EXPECT_EQ(views.view(child, 0, told[0], 1), nullptr) << "a file that is no allocation";
  EXPECT_EQ(write(done[1], &c, 1), 1);
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  EXPECT_EQ(status, 0);
  munmap(told, 4096);
}

/// The file of an allocation, as a peer may hold it.
int open_file(ArenaKey key) {
  return open(("/proc/self/fd/" + std::to_string(key & 0xffffffffU)).c_str(), O_RDONLY | O_CLOEXEC);
}

std::size_t bytes_held(int fd) {
  struct stat status {};
  EXPECT_EQ(fstat(fd, &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

/// Mappings of allocations in this process, the owner's and views.
int mapped() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:tapa-buffer") != line.npos;
  return count;
}

TEST(ArenaViews, DoNotKeepFreedMemory) {
  constexpr std::size_t bytes = std::size_t{3} << 20;
  Arenas arenas;
  ArenaViews views;
  auto* const memory = static_cast<std::byte*>(arenas.allocate(bytes));
  std::memset(memory, 1, bytes);
  const ArenaKey key = arenas.find(memory, 1);
  const int file = open_file(key);
  ASSERT_GE(file, 0);
  ASSERT_NE(views.view(getpid(), key, address(memory), bytes), nullptr);
  EXPECT_GE(bytes_held(file), bytes);
  EXPECT_EQ(mapped(), 2);
  EXPECT_TRUE(arenas.free(memory));
  EXPECT_EQ(mapped(), 1) << "the view";
  EXPECT_LE(bytes_held(file), page_bytes()) << "its header";
  close(file);
}

// Whoever goes on with some allocations unmaps all that were freed, also when he asks for no new one.
TEST(ArenaViews, AreUnmappedSoonAfterTheirOwnerHasFreedThem) {
  constexpr std::size_t count = 10;
  Arenas arenas;
  ArenaViews views;
  std::vector<void*> memory;
  std::vector<ArenaKey> keys;
  const auto look = [&](std::size_t i) { return views.view(getpid(), keys[i], address(memory[i]), 1); };
  for (std::size_t i = 0; i < count; ++i) {
    memory.push_back(arenas.allocate(Arenas::kShortest));
    keys.push_back(arenas.find(memory[i], 1));
    ASSERT_NE(look(i), nullptr);
  }
  EXPECT_EQ(mapped(), 2 * static_cast<int>(count));
  for (std::size_t i = 2; i < count; ++i) EXPECT_TRUE(arenas.free(memory[i]));
  for (std::size_t i = 0; i < count + 2; ++i) ASSERT_NE(look(i % 2), nullptr);
  EXPECT_EQ(mapped(), 4);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(arenas.free(memory[i]));
}

}  // namespace
}  // namespace tapa
