// What a process does when it exits.
#include "device/at_exit.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

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
  EXPECT_EQ(TEMP_FAILURE_RETRY(::waitpid(child, &status, 0)), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return said;
}

std::function<void()> say(int to, char letter) {
  return [to, letter] { EXPECT_EQ(::write(to, &letter, 1), 1); };
}

/// Never destroyed, as what a program does not free.
void live_on(int to, char begin, char end) {
  static auto* const all = new std::vector<std::unique_ptr<AtExit>>;
  all->push_back(std::make_unique<AtExit>(say(to, begin), say(to, end)));
}

TEST(AtExit, AllBeginBeforeOneEnds) {
  EXPECT_EQ(said_by_child([](int to) {
              live_on(to, 'a', 'A');
              auto freed = std::make_unique<AtExit>(say(to, 'b'), say(to, 'B'));
              freed.reset();
              live_on(to, 'd', 'D');
            }),
            "adAD");
}

TEST(AtExit, NotInAProcessThatWasForkedSince) {
  EXPECT_EQ(said_by_child([](int to) {
              live_on(to, 'a', 'A');
              const pid_t child = ::fork();
              if (child == 0) std::exit(0);
              int status = 0;
              EXPECT_EQ(TEMP_FAILURE_RETRY(::waitpid(child, &status, 0)), child);
              say(to, 'b')();
            }),
            "baA");
}

/// Another thread may free an object while the process exits.
TEST(AtExit, WhoDestroysOneWaitsForItsFunction) {
  EXPECT_EQ(said_by_child([](int to) {
              static std::atomic<bool> running = false;
              static auto* object = new AtExit(
                  [to] {
                    running = true;
                    std::this_thread::sleep_for(std::chrono::milliseconds(100));
                    say(to, 'a')();
                  },
                  say(to, 'A'));
              std::thread([to] {
                while (!running) std::this_thread::yield();
                delete object;
                say(to, 'b')();
              }).detach();
              // exit() goes on, and so may end before the thread does: it is waited for last.
              live_on(to, 'c', 'C');
              static auto* const last =
                  new AtExit([] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); }, [] {});
              (void)last;
            }).substr(0, 1),
            "a");
}

}  // namespace
}  // namespace tapa::device
