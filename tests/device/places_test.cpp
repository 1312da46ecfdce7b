// Where ranks run.
#include "device/places.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace tapa::device {
namespace {

/// own_node() in a process that sees only itself; "" where the system makes none.
std::string node_in_a_container() {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(0);
    const pid_t inside = ::fork();
    if (inside == 0) {
      const std::string node = own_node();
      ::_exit(::write(ends[1], node.data(), node.size()) == static_cast<ssize_t>(node.size()) ? 0 : 1);
    }
    int status = 0;
    TEMP_FAILURE_RETRY(::waitpid(inside, &status, 0));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string node;
  for (char letter; ::read(ends[0], &letter, 1) == 1;) node += letter;
  ::close(ends[0]);
  int status = 0;
  TEMP_FAILURE_RETRY(::waitpid(child, &status, 0));
  return node;
}

TEST(Places, OneMachineMayStandForSeveralNodes) {
  ::unsetenv("TAPA_DEVICE_NODE");
  const std::string plain = own_node();
  EXPECT_EQ(own_node(), plain);
  ::setenv("TAPA_DEVICE_NODE", "a", 1);
  const std::string a = own_node();
  ::setenv("TAPA_DEVICE_NODE", "b", 1);
  EXPECT_NE(a, plain);
  EXPECT_NE(own_node(), a);
  ::unsetenv("TAPA_DEVICE_NODE");
}

TEST(Places, ProcessesThatDoNotSeeEachOtherShareNoNode) {
  const std::string inside = node_in_a_container();
  if (inside.empty()) GTEST_SKIP() << "no namespace can be made";
  EXPECT_NE(inside, own_node());
}

}  // namespace
}  // namespace tapa::device
