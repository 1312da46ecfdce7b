// MPI's own functions are found while another thread opens libraries: neither waits for the other for ever.
#include "run/own_mpi.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace {

/// In a process of its own, as the first look decides: 0 when the function was found. Killed by SIGALRM when
/// there is no end.
[[noreturn]] void look_while_opening(const char* library) {
  constexpr unsigned kLimit = 20;  // seconds
  alarm(kLimit);
  int initialized = 0;
  MPI_Initialized(&initialized);  // so that MPI is linked
  std::atomic<bool> opened{false};
  std::thread([&] {
    for (;;) {
      if (void* const handle = dlopen(library, RTLD_NOW)) dlclose(handle);
      opened = true;
    }
  }).detach();
  while (!opened) std::this_thread::yield();
  _exit(tapa::find_in_mpi("PMPI_Alltoall") != nullptr ? 0 : 1);
}

TEST(OwnMpi, IsFoundWhileLibrariesAreOpened) {
  const char* const library = std::getenv("OPENED_LIBRARY");
  ASSERT_NE(library, nullptr);
  for (int run = 0; run < 20; ++run) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) look_while_opening(library);
    int status = -1;
    ASSERT_EQ(TEMP_FAILURE_RETRY(waitpid(child, &status, 0)), child);
    ASSERT_TRUE(WIFEXITED(status)) << "run " << run << ": ended by signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 0) << "run " << run;
  }
}

TEST(OwnMpi, IsNotFoundUnderAnotherName) {
  EXPECT_EQ(tapa::find_in_mpi("PMPI_No_such_function"), nullptr);
}

}  // namespace
