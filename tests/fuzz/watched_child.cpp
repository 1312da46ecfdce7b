#include "watched_child.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <system_error>
#include <thread>

namespace fuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

/// Written by the child, read by its parent.
struct Progress {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<bool> through{false};
};

class SharedProgress {
 public:
  SharedProgress()
      : memory_(
            ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) fail("mmap");
    progress_ = new (memory_) Progress;
  }
  ~SharedProgress() { ::munmap(memory_, sizeof(Progress)); }
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  Progress* operator->() const { return progress_; }

 private:
  void* memory_;
  Progress* progress_;
};

/// Where the child's temporary files go.
class OwnFolder {
 public:
  OwnFolder() {
    std::string name = (fs::temp_directory_path() / "tapa-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail("mkdtemp");
    path_ = name;
  }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

[[noreturn]] void be_child(const std::function<bool(std::uint64_t)>& run, const SharedProgress& progress,
                           const fs::path& folder, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a parent that a test's time limit kills leaves nobody behind
  if (::getppid() != parent) std::_Exit(1);
  ::setenv("TMPDIR", folder.c_str(), 1);
  for (std::uint64_t number = 0;; ++number) {
    progress->begun = number + 1;
    if (run(number)) continue;
    progress->begun = number;
    progress->through = true;
    std::exit(0);
  }
}

std::string words_of(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

/// Of the child; empty when it ended well.
std::string watch(pid_t child, const SharedProgress& progress, std::chrono::seconds limit) {
  constexpr std::chrono::milliseconds kLook(5);
  std::uint64_t last = 0;
  Clock::time_point since = Clock::now();
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended < 0) fail("waitpid");
    if (ended == child) {
      const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0 && progress->through;
      return well ? "" : words_of(status);
    }
    const std::uint64_t begun = progress->begun;
    if (begun != last) since = Clock::now();
    last = begun;
    if (!progress->through && Clock::now() - since > limit) {
      ::kill(child, SIGKILL);
      TEMP_FAILURE_RETRY(::waitpid(child, &status, 0));
      return "not done after " + std::to_string(limit.count()) + " s";
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

Fate run_watched(const std::function<bool(std::uint64_t)>& run, std::chrono::seconds limit) {
  const SharedProgress progress;
  const OwnFolder folder;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) be_child(run, progress, folder.path(), parent);
  Fate fate;
  fate.wrong = watch(child, progress, limit);
  fate.inputs = progress->begun;
  fate.after_all = progress->through;
  return fate;
}

}  // namespace fuzz
