// What is set aside for a process that is refused memory: at a limit of its address space.
#include "memory/reserve.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <thread>
#include <utility>

namespace {

/// The process gets no more memory while it lives.
class Starving {
 public:
  Starving() {
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit full{pages * static_cast<rlim_t>(getpagesize()), before_.rlim_max};
    setrlimit(RLIMIT_AS, &full);
    take_all();
  }
  ~Starving() {
    setrlimit(RLIMIT_AS, &before_);
    while (last_ != nullptr) std::free(std::exchange(last_, last_->next));
  }
  Starving(const Starving&) = delete;
  Starving& operator=(const Starving&) = delete;

  void take_all() {
    for (std::size_t bytes = std::size_t{1} << 20; bytes >= sizeof(Piece); bytes /= 2)
      while (auto* const piece = static_cast<Piece*>(std::malloc(bytes))) last_ = new (piece) Piece{last_};
  }

 private:
  struct Piece {
    Piece* next;
  };
  rlimit before_{};
  Piece* last_ = nullptr;
};

/// Whether new gives a small piece, of a length that take_all() asks for, too.
bool has_memory(std::unique_ptr<char[]>& piece) {
  try {
    piece.reset(new char[1024]);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

TEST(Reserve, GivesSmallPiecesWhereThereIsNoMemory) {
  for (int time = 0; time < 2; ++time) {
    std::unique_ptr<char[]> pieces[2];
    bool had[2];
    memory::keep_reserve();
    {
      Starving starving;
      had[0] = has_memory(pieces[0]);
      starving.take_all();
      had[1] = has_memory(pieces[1]);
    }
    EXPECT_TRUE(had[0]) << time;
    EXPECT_FALSE(had[1]) << time;
  }
}

/// As operator new does that finds no memory: whether it is to try again.
bool may_try_again() {
  try {
    std::get_new_handler()();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Both have found none, then one after the other asks for it.
TEST(Reserve, IsOfAllThreadsThatFindNoMemoryAtOnce) {
  memory::keep_reserve();
  EXPECT_TRUE(may_try_again());
  EXPECT_FALSE(may_try_again()) << "it is gone";
  std::jthread([] {
    EXPECT_TRUE(may_try_again()) << "since this thread has asked, perhaps";
    EXPECT_FALSE(may_try_again());
  });
}

TEST(Reserve, IsThereAgainWhereAProgramHasTakenTheHandlerAway) {
  memory::keep_reserve();
  std::set_new_handler(nullptr);
  memory::keep_reserve();
  ASSERT_NE(std::get_new_handler(), nullptr);
  EXPECT_TRUE(may_try_again());
}

TEST(Reserve, LeavesAProgramsHandlerWhereItIs) {
  const std::new_handler own = [] { throw std::bad_alloc(); };
  const std::new_handler before = std::set_new_handler(own);
  memory::keep_reserve();
  EXPECT_EQ(std::set_new_handler(before), own);
}

}  // namespace
