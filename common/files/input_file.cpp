#include "files/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace files {

namespace {

// Opening a pipe that nobody writes to would wait for ever, and a terminal would become the process's own.
constexpr int kWithoutWaiting = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
constexpr std::size_t kBlock = std::size_t{64} << 10;

Descriptor regular(int number) {
  Descriptor file(number);
  struct stat facts {};
  if (!file.is_open() || ::fstat(file.get(), &facts) != 0) throw FileError(errno);
  if (S_ISDIR(facts.st_mode)) throw FileError("is a folder");
  if (!S_ISREG(facts.st_mode)) throw FileError("is no regular file");
  return file;
}

}  // namespace

FileError::FileError(int error) : std::runtime_error(std::generic_category().message(error)), error_(error) {}

bool FileError::is_missing() const {
  return error_ == ENOENT;
}

Descriptor open_regular(const std::filesystem::path& path) {
  return regular(::open(path.c_str(), kWithoutWaiting));
}

Descriptor open_regular_in(const Descriptor& folder, const std::string& name) {
  return regular(::openat(folder.get(), name.c_str(), kWithoutWaiting | O_NOFOLLOW));
}

std::string read_beginning(const Descriptor& file, std::size_t most) {
  std::string text;
  while (text.size() < most) {
    const std::size_t had = text.size();
    text.resize(std::min(most, had + kBlock));
    const ssize_t got = ::read(file.get(), &text[had], text.size() - had);
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno != EINTR) throw FileError(errno);
    if (got == 0) break;
  }
  return text;
}

std::string read_text(const std::filesystem::path& path, std::size_t most) {
  const Descriptor file = open_regular(path);
  const auto require_at_most = [&](std::size_t bytes) {
    if (bytes > most) throw FileError("more than " + std::to_string(most) + " bytes");
  };
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) throw FileError(errno);
  require_at_most(static_cast<std::size_t>(facts.st_size));  // before it is read
  std::string text = read_beginning(file, most + 1);
  require_at_most(text.size());
  return text;
}

}  // namespace files
