#include "predict/simulated_machine.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

// POSIX leaves its declaration to programs; NOLINTNEXTLINE(readability-redundant-declaration)
extern char** environ;

namespace dit {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFlat = "ompi";  // Open MPI's selector, as the simulator calls it

/// A file that goes with its owner.
class ResultFile {
 public:
  ResultFile() {
    std::string pattern = (fs::temp_directory_path() / "dit-sim-XXXXXX").string();
    const int file = mkstemp(pattern.data());
    if (file < 0) throw std::runtime_error(pattern + ": cannot be made: " + std::strerror(errno));
    close(file);
    path_ = pattern;
  }
  ~ResultFile() { unlink(path_.c_str()); }
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Beside this program, else on PATH.
std::string program() {
  const fs::path beside = fs::canonical("/proc/self/exe").parent_path() / "tapa-sim";
  return fs::exists(beside) ? beside.string() : "tapa-sim";
}

void run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    throw std::runtime_error(
        words[0] + " cannot be started (" + std::strerror(error) +
        "): expected it beside this program or on PATH; it is built where SimGrid is found");
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return;
  throw std::runtime_error("tapa-sim failed, see its message");
}

nlohmann::json ask(const std::string& machine, int nodes, const std::string& bytes,
                   const std::string& rivals) {
  const ResultFile result;
  run({program(), machine, "--nodes", std::to_string(nodes), "--bytes", bytes, "--plans", "choice",
       "--rivals", rivals, "--memory", "0.5", "--json", result.path()});
  std::ifstream file(result.path());
  return nlohmann::json::parse(file);
}

}  // namespace

SimulatedMachine::SimulatedMachine(std::string name) : asked_(std::move(name)) {
  const nlohmann::json answer = ask(asked_, 1, "8", "");
  name_ = answer.at("machine").get<std::string>();
  ranks_per_node_ = answer.at("ranks").get<int>();
}

void SimulatedMachine::simulate(int nodes, const std::vector<std::size_t>& bytes, bool flat) {
  std::set<std::size_t> unknown;
  for (const std::size_t size : bytes) {
    const auto found = known_.find({nodes, size});
    if (found == known_.end() || (flat && found->second.flat <= 0)) unknown.insert(size);
  }
  if (unknown.empty()) return;
  std::string list;
  for (const std::size_t size : unknown) list += (list.empty() ? "" : ",") + std::to_string(size);
  const nlohmann::json answer = ask(asked_, nodes, list, flat ? kFlat : "");
  for (const nlohmann::json& row : answer.at("rows")) {
    const auto choice = row.at("choice").get<std::string>();
    const double flat_us = flat ? row.at("rivals").at(kFlat).get<double>() : 0;
    known_[{nodes, row.at("bytes").get<std::size_t>()}] = {
        flat_us * 1e-6, row.at("plans").at(choice).get<double>() * 1e-6, choice};
  }
}

SimulatedExchange SimulatedMachine::exchange(int nodes, std::size_t bytes) const {
  return known_.at({nodes, bytes});
}

}  // namespace dit
