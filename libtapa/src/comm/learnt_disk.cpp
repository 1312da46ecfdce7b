#include "comm/learnt_disk.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "autotune/learnt_file.hpp"
#include "run/log.hpp"

namespace tapa {

namespace {

/// Closed at the end.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

/// A longer file than the process may write would end it by a signal.
bool may_write(std::size_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

/// A link stays, what it leads to is replaced.
std::string behind_links(const std::string& path) {
  std::error_code problem;
  const std::filesystem::path file = std::filesystem::canonical(path, problem);
  return problem ? path : file.string();
}

/// Whether a file may take that place: a file is there, or nothing. A device, a pipe or a folder is never
/// replaced, whatever rights the process has.
bool holds_no_other(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 ? S_ISREG(facts.st_mode) : errno == ENOENT;
}

/// Whether it is empty or begins like one of these, damaged or not.
bool may_be_ours(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return errno == ENOENT;
  std::array<char, 256> begin{};
  const ssize_t got = ::read(file.get(), begin.data(), begin.size());
  if (got <= 0) return got == 0;
  const std::string_view text(begin.data(), static_cast<std::size_t>(got));
  return text.find("\"tapa-learnt/") != std::string_view::npos;  // written by a person's tool perhaps
}

}  // namespace

std::optional<std::string> text_of(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    log_info("cache " + path + ": " + why);
    return std::nullopt;
  };
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    return refuse(std::generic_category().message(errno));
  }
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) return refuse("is no file");
  std::string text(kMostLearntBytes + 1, '\0');
  std::size_t had = 0;
  while (had < text.size()) {
    const ssize_t got = ::read(file.get(), &text[had], text.size() - had);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(std::generic_category().message(errno));
    if (got == 0) break;
    had += static_cast<std::size_t>(got);
  }
  if (had > kMostLearntBytes) return refuse("is longer than " + std::to_string(kMostLearntBytes) + " bytes");
  text.resize(had);
  return text;
}

std::string replace_file(const std::string& path, const std::string& text) {
  if (text.size() > kMostLearntBytes) return "would be too long";
  if (!may_write(text.size())) return "the process may write no such file";
  const std::string target = behind_links(path);
  if (!holds_no_other(target)) return "is no file";
  std::string draft = target + ".XXXXXX";
  File file(::mkostemp(draft.data(), O_CLOEXEC));  // mode 0600
  if (file.get() < 0) return std::generic_category().message(errno);
  const bool written = write_all(file.get(), text) && file.close();
  if (written && ::rename(draft.c_str(), target.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(draft.c_str());
  return std::generic_category().message(error);
}

bool is_of_another(const std::string& path) {
  return holds_no_other(behind_links(path)) && !may_be_ours(path);
}

}  // namespace tapa
