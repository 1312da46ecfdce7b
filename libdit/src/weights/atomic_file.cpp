#include "weights/atomic_file.hpp"

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace dit {

void write_atomically(const std::filesystem::path& path, const std::function<void(std::ostream&)>& body) {
  std::filesystem::path draft = path;
  draft += ".part";
  const auto fail = [&path](const std::string& why) {
    throw std::runtime_error(path.string() + ": cannot be written: " + why);
  };
  std::error_code problem;
  try {
    errno = 0;
    std::ofstream file(draft, std::ios::binary | std::ios::trunc);
    if (!file) {
      fail(std::generic_category().message(errno));
    }
    body(file);
    errno = 0;
    file.close();
    if (!file) {
      fail(errno == 0 ? "the disk may be full" : std::generic_category().message(errno));
    }
    std::filesystem::rename(draft, path, problem);
    if (problem) {
      fail(problem.message());
    }
  } catch (...) {
    std::filesystem::remove(draft, problem);
    throw;
  }
}

}  // namespace dit
