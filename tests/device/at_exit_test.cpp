// What a process does when it exits.
#include "device/at_exit.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace tapa::device {
namespace {

/// What a child process writes by `body`, and by functions that run when it exits then.
template <class Body>
std::string said_by_child(const Body& body) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    body(ends[1]);
    std::exit(0);
  }
  ::close(ends[1]);
  std::string said;
  for (char letter; ::read(ends[0], &letter, 1) == 1;) said += letter;
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return said;
}

std::function<void()> say(int to, char letter) {
  return [to, letter] { EXPECT_EQ(::write(to, &letter, 1), 1); };
}

TEST(AtExit, RunsForThoseThatLive) {
  EXPECT_EQ(said_by_child([](int to) {
              new AtExit(say(to, 'a'));  // lives on, as what nobody frees
              auto freed = std::make_unique<AtExit>(say(to, 'b'));
              freed.reset();
              new AtExit(say(to, 'd'));
            }),
            "ad");
}

TEST(AtExit, NotInAProcessThatWasForkedSince) {
  EXPECT_EQ(said_by_child([](int to) {
              new AtExit(say(to, 'a'));
              const pid_t child = ::fork();
              if (child == 0) std::exit(0);
              int status = 0;
              EXPECT_EQ(::waitpid(child, &status, 0), child);
              say(to, 'b')();
            }),
            "ba");
}

}  // namespace
}  // namespace tapa::device
