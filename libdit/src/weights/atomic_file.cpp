#include "weights/atomic_file.hpp"

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace dit {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& why) {
  throw std::runtime_error(path.string() + ": cannot be written: " + why);
}

/// A pipe or a device takes bytes as they come; a file must not take its place.
bool is_stream(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// The file that a link leads to is replaced, the link stays.
fs::path behind_links(const fs::path& path) {
  std::error_code problem;
  const fs::path file = fs::canonical(path, problem);
  return problem ? path : file;
}

fs::path draft_of(const fs::path& path) {
  fs::path draft = behind_links(path);
  draft += ".part";
  return draft;
}

/// `path` is what errors name.
void write(const fs::path& path, const fs::path& file, const std::function<void(std::ostream&)>& body) {
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!out) fail(path, std::generic_category().message(errno));
  errno = 0;
  body(out);
  const int first =
      out ? 0 : errno;  // a stream that failed once writes nothing more, so that close has no reason
  errno = 0;
  out.close();
  const int problem = first != 0 ? first : errno;
  if (!out) fail(path, problem == 0 ? "the disk may be full" : std::generic_category().message(problem));
}

}  // namespace

void write_atomically(const fs::path& path, const std::function<void(std::ostream&)>& body) {
  if (is_stream(path)) return write(path, path, body);
  const fs::path draft = draft_of(path);
  std::error_code problem;
  try {
    write(path, draft, body);
    fs::rename(draft, behind_links(path), problem);
    if (problem) fail(path, problem.message());
  } catch (...) {
    fs::remove(draft, problem);
    throw;
  }
}

void check_writable(const fs::path& path) {
  if (is_stream(path)) return;
  const fs::path draft = draft_of(path);
  errno = 0;
  if (!std::ofstream(draft, std::ios::binary | std::ios::app))
    fail(path, std::generic_category().message(errno));
  std::error_code ignored;
  fs::remove(draft, ignored);
}

}  // namespace dit
