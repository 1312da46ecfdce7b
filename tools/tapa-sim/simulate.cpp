#include "simulate.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "files/output_file.hpp"
#include "job.hpp"

namespace tapa::sim_tool {

namespace {

namespace fs = std::filesystem;

constexpr const char* kScratch = "tapa-sim-";

/// A folder that is held by a lock as long as its process lives, whatever ends it.
int hold(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -1;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

/// Takes away folders of runs that were killed: nobody holds them. Young ones may be about to be held.
void sweep(const fs::path& where) {
  constexpr std::chrono::minutes young{1};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(where, error)) {
    struct stat facts {};
    const fs::path& path = entry.path();
    if (!path.filename().string().starts_with(kScratch) || lstat(path.c_str(), &facts) != 0) continue;
    const auto made = std::chrono::system_clock::from_time_t(facts.st_mtime);
    if (facts.st_uid != geteuid() || std::chrono::system_clock::now() - made < young) continue;
    const int fd = hold(path);
    if (fd < 0) continue;
    fs::remove_all(path, error);
    close(fd);
  }
}

/// A folder for this run's files; goes with it.
class Scratch {
 public:
  Scratch() {
    sweep(fs::temp_directory_path());
    std::string pattern = (fs::temp_directory_path() / (std::string(kScratch) + "XXXXXX")).string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error(pattern + ": cannot be made: " + std::strerror(errno));
    path_ = pattern;
    held_ = hold(path_);
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path_, error);
    if (held_ >= 0) close(held_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] std::string file(const std::string& name, std::size_t number) const {
    return path_ / (name + std::to_string(number));
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  int held_ = -1;
};

volatile std::sig_atomic_t stopped_by = 0;

/// While it lives, the signals that end a program only leave a note, so that simulations and files can be
/// cleared away.
class StopSignals {
 public:
  StopSignals() {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, [](int n) { stopped_by = n; });
  }
  ~StopSignals() {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_DFL);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

/// The folder with what the simulator loads.
fs::path library_folder() {
  const fs::path bin = fs::canonical("/proc/self/exe").parent_path();
  for (const fs::path& folder : {bin / "../lib/tapa-sim", bin / TAPA_LIBRARY_FOLDER / "tapa-sim"}) {
    if (fs::exists(folder / "platform.so") && fs::exists(folder / "ranks.so")) return fs::canonical(folder);
  }
  throw std::runtime_error("platform.so and ranks.so are not in " + (bin / "../lib/tapa-sim").string());
}

class Runner {
 public:
  Runner(const sim::Job& machine, const std::vector<Simulation>& simulations, const Limits& limits)
      : machine_(machine), simulations_(simulations), limits_(limits), folder_(library_folder()) {
    files::write_file(scratch_.file("hosts", 0), [&](std::ostream& hosts) {
      for (int r = 0; r < machine.topology.ranks; ++r) hosts << "r" << r << "\n";
    });
  }
  ~Runner() {
    for (const pid_t pid : running_) {
      if (pid <= 0) continue;
      kill(pid, SIGTERM);
      waitpid(pid, nullptr, 0);
    }
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  std::vector<Outcome> run(const OnProgress& on_progress) {
    outcomes_.resize(simulations_.size());
    running_.assign(simulations_.size(), 0);
    std::size_t started = 0, ended = 0;
    while (ended < simulations_.size()) {
      while (started < simulations_.size() && started - ended < static_cast<std::size_t>(limits_.jobs))
        start(started++);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (stopped_by != 0) throw std::runtime_error("stopped by signal " + std::to_string(stopped_by));
      ended += reap();
      on_progress(done(), all());
    }
    return std::move(outcomes_);
  }

 private:
  void start(std::size_t number) {
    const Simulation& simulation = simulations_[number];
    sim::Job job = machine_;
    job.contenders = simulation.contenders;
    job.bytes = simulation.bytes;
    job.data_limit = limits_.data_limit;
    job.results = scratch_.file("results", number);
    const std::string path = scratch_.file("job", number);
    files::write_file(path, [&](std::ostream& file) { file << sim::write_job(job); });
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error(std::string("no process can be started: ") + std::strerror(errno));
    if (pid == 0) become(number, path, parent);
    running_[number] = pid;
  }

  /// The child: never returns.
  [[noreturn]] void become(std::size_t number, const std::string& job, pid_t parent) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    const int log = open(scratch_.file("log", number).c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    const std::string platform = folder_ / "platform.so";
    setenv("TAPA_SIM_JOB", job.c_str(), 1);
    setenv("TAPA_SIM_PLATFORM", platform.c_str(), 1);
    setenv("TMPDIR", scratch_.path().c_str(), 1);  // for each rank's copy of ranks.so
    std::vector<std::string> words = {TAPA_SMPIRUN,
                                      "-np",
                                      std::to_string(machine_.topology.ranks),
                                      "-platform",
                                      platform,
                                      "-hostfile",
                                      scratch_.file("hosts", 0),
                                      "--log=root.thresh:critical"};
    if (!simulations_[number].selector.empty())
      words.push_back("--cfg=smpi/alltoall:" + simulations_[number].selector);
    words.push_back(folder_ / "ranks.so");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv(TAPA_SMPIRUN, arguments.data());
    _exit(127);
  }

  /// Collects processes that have ended; returns how many.
  std::size_t reap() {
    std::size_t count = 0;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      int status = 0;
      if (running_[i] <= 0 || waitpid(running_[i], &status, WNOHANG) != running_[i]) continue;
      running_[i] = 0;
      ++count;
      outcomes_[i].results = read_results(i);
      const std::size_t due = simulations_[i].contenders.size() * simulations_[i].bytes.size();
      if (status != 0 || outcomes_[i].results.size() != due) outcomes_[i].error = last_words(i, status);
    }
    return count;
  }

  [[nodiscard]] std::vector<Result> read_results(std::size_t number) const {
    std::vector<Result> results;
    std::ifstream file(scratch_.file("results", number));
    Result r;
    r.simulation = number;
    int checked = 0;
    while (file >> r.contender >> r.bytes >> r.seconds >> r.busiest_nic >> r.wrong_bytes >> checked) {
      r.checked = checked != 0;
      results.push_back(r);
    }
    return results;
  }

  [[nodiscard]] std::string last_words(std::size_t number, int status) const {
    std::ifstream file(scratch_.file("log", number));
    std::string said;
    for (std::string line; std::getline(file, line);) {
      if (line.find("ncaught exception") != std::string::npos) return status_words(status) + ": " + line;
      if (line.find("rror") != std::string::npos) said = line;
    }
    return status_words(status) + (said.empty() ? "" : ": " + said);
  }

  static std::string status_words(int status) {
    return "the simulator ended with status " +
           std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }

  [[nodiscard]] std::size_t all() const {
    std::size_t count = 0;
    for (const Simulation& s : simulations_) count += s.contenders.size() * s.bytes.size();
    return count;
  }

  [[nodiscard]] std::size_t done() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < outcomes_.size(); ++i)
      count += running_[i] > 0 ? read_results(i).size() : outcomes_[i].results.size();
    return count;
  }

  const sim::Job& machine_;
  const std::vector<Simulation>& simulations_;
  const Limits& limits_;
  fs::path folder_;
  StopSignals signals_;
  Scratch scratch_;
  std::vector<pid_t> running_;  // of each simulation, 0 when it does not run
  std::vector<Outcome> outcomes_;
};

}  // namespace

std::vector<Outcome> simulate(const sim::Job& machine, const std::vector<Simulation>& simulations,
                              const Limits& limits, const OnProgress& on_progress) {
  return Runner(machine, simulations, limits).run(on_progress);
}

}  // namespace tapa::sim_tool
