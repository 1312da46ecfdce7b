#include "write_file.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

namespace tapa {
namespace {

namespace fs = std::filesystem;

// Whoever is asked to end while the draft is there leaves none, and the file is whole.
TEST(WriteFile, ASignalWaitsUntilTheFileIsThere) {
  std::string name = fs::temp_directory_path() / "write-file-test-XXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const fs::path folder = name;
  const std::string text(std::size_t{64} << 20, 'x');
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const fs::path file = folder / std::to_string(number);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::signal(number, SIG_DFL);
      write_file("--output", file, text);
      _exit(7);
    }
    while (fs::is_empty(folder)) std::this_thread::yield();
    kill(child, number);
    int status = 0;
    ASSERT_EQ(TEMP_FAILURE_RETRY(waitpid(child, &status, 0)), child);
    // It may have been done before the signal came.
    EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == number) || WEXITSTATUS(status) == 7) << status;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
    EXPECT_EQ(fs::file_size(file), text.size());
    fs::remove(file);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tapa
