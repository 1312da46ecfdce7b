#include "failure.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace dit::tool {
namespace {

template <typename Error>
Verdict verdict_on(const Error& error) {
  return verdict_of(std::make_exception_ptr(error));
}

TEST(Failure, IsOneLine) {
  EXPECT_EQ(verdict_on(std::runtime_error("looked for:\n  a b\n  c  d\n")).line, "looked for: a b c  d");
  EXPECT_EQ(verdict_on(std::runtime_error("")).line, "");
}

TEST(Failure, TellsWrongWordsFromWhatCannotBeDone) {
  EXPECT_EQ(verdict_on(std::invalid_argument("a")).status, exit_argument);
  EXPECT_EQ(verdict_on(std::runtime_error("a")).status, exit_failed);
}

TEST(Failure, MemoryThatThereIsNotIsSaidInOurWords) {
  const c10::Error error(
      {__func__, __FILE__, 0},
      "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you "
      "tried to allocate 34359738368 bytes. Error code 12 (Cannot allocate memory)");
  EXPECT_EQ(
      verdict_on(error).line,
      "out of memory: no room for a tensor of 32.0 GiB; a smaller image or batch, or more ranks, need less");
  EXPECT_EQ(verdict_on(error).status, exit_failed);
}

}  // namespace
}  // namespace dit::tool
