// Runs many command lines of dit in one process each, without loading libtorch for each. A line of the
// standard input,
// {"arguments": [...], "folder": "...", "seconds": 60}, is answered by a line {"status", "stdout", "stderr"};
// a status below 0 is the number of the signal that ended the run.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "command_line.hpp"
#include "lost_output.h"

namespace {

/// A file in memory for what a run prints.
class Output {
 public:
  Output() : file_(memfd_create("output", 0)) {
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { close(file_); }
  void become(int descriptor) const { dup2(file_, descriptor); }
  [[nodiscard]] std::string text() const {
    std::string text(static_cast<std::size_t>(lseek(file_, 0, SEEK_END)), '\0');
    if (pread(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      throw std::system_error(errno, std::generic_category(), "pread");
    return text;
  }

 private:
  int file_;
};

[[noreturn]] void be_the_program(const nlohmann::json& wanted, const Output& output, const Output& errors) {
  output.become(STDOUT_FILENO);
  errors.become(STDERR_FILENO);
  std::filesystem::current_path(wanted.at("folder").get<std::string>());
  alarm(wanted.at("seconds").get<unsigned>());
  const auto arguments = wanted.at("arguments").get<std::vector<std::string>>();
  std::vector<const char*> argv = {"dit"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  std::exit(dit::tool::run(static_cast<int>(argv.size()) - 1, argv.data()));
}

nlohmann::json answer(const nlohmann::json& wanted) {
  const Output output;
  const Output errors;
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) be_the_program(wanted, output, errors);
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  return {{"status", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)},
          {"stdout", output.text()},
          {"stderr", errors.text()}};
}

/// A child has one thread only, whatever the others were doing.
void require_one_thread() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  const auto threads = std::distance(begin(tasks), end(tasks));
  if (threads != 1)
    throw std::logic_error(std::to_string(threads) + " threads, expected one before the first fork");
}

}  // namespace

int main() {
  skip_library_destructors();  // as dit does
  try {
    std::string line;
    while (std::getline(std::cin, line)) {
      require_one_thread();
      std::cout
          << answer(nlohmann::json::parse(line)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)
          << std::endl;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "many_runs: " << error.what() << '\n';
    return 1;
  }
}
