#include "files/output_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <streambuf>
#include <string_view>
#include <system_error>

namespace files {

namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel follows
constexpr std::string_view kDraft = ".part";
constexpr std::size_t kRandom = 6;   // characters between the name and that
constexpr time_t kForgotten = 3600;  // seconds without a byte

/// Bytes for an open file, and the first error.
class Bytes : public std::streambuf {
 public:
  explicit Bytes(const Descriptor& file) : file_(&file) {
    setp(block_.data(), block_.data() + block_.size());
  }
  [[nodiscard]] int error() const { return error_; }

 protected:
  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    return traits_type::eq_int_type(c, traits_type::eof()) ? traits_type::not_eof(c)
                                                           : sputc(traits_type::to_char_type(c));
  }
  int sync() override {
    for (const char* at = pbase(); at < pptr() && error_ == 0;) {
      const ssize_t put = ::write(file_->get(), at, static_cast<std::size_t>(pptr() - at));
      if (put >= 0)
        at += put;
      else if (errno != EINTR)
        error_ = errno;
    }
    setp(block_.data(), block_.data() + block_.size());
    return error_ == 0 ? 0 : -1;
  }

 private:
  const Descriptor* file_;
  std::array<char, std::size_t{64} << 10> block_;
  int error_ = 0;
};

void write_to(Descriptor& file, const Body& body) {
  const auto bytes = std::make_unique<Bytes>(file);
  std::ostream out(bytes.get());
  body(out);
  out.flush();
  if (bytes->error() != 0) throw FileError(bytes->error());
  if (file.close() != 0) throw FileError(errno);
}

Descriptor open_folder(int below, const fs::path& path) {
  Descriptor folder(::openat(below, path.empty() ? "." : path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) throw FileError(errno);
  return folder;
}

/// A link of the kernel's, such as /dev/stdout leads to: its text may be no path.
bool is_of_kernel(const Descriptor& folder) {
  struct statfs system {};
  return ::fstatfs(folder.get(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

fs::path target_of(const Descriptor& folder, const std::string& link) {
  std::array<char, PATH_MAX> text{};
  const ssize_t length = ::readlinkat(folder.get(), link.c_str(), text.data(), text.size());
  if (length < 0) throw FileError(errno);
  return std::string(text.data(), static_cast<std::size_t>(length));
}

std::string draft_name(const std::string& name) {
  static constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz012345";
  std::array<unsigned char, kRandom> random{};
  if (::getrandom(random.data(), random.size(), 0) < 0) throw FileError(errno);
  std::string draft = name + ".";
  for (const unsigned char byte : random) draft += letters[byte % letters.size()];
  return draft.append(kDraft);
}

bool is_draft_of(std::string_view entry, const std::string& name) {
  return entry.size() == name.size() + 1 + kRandom + kDraft.size() && entry.starts_with(name) &&
         entry[name.size()] == '.' && entry.ends_with(kDraft);
}

/// A file under a name of its own, gone unless it takes its place.
class Draft {
 public:
  Draft(const Descriptor& folder, const std::string& name, mode_t rights) : folder_(&folder) {
    do {
      name_ = draft_name(name);
      file_ = Descriptor(::openat(folder.get(), name_.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, rights));
    } while (!file_.is_open() && errno == EEXIST);
    if (!file_.is_open()) throw FileError(errno);
  }
  ~Draft() {
    if (!name_.empty()) ::unlinkat(folder_->get(), name_.c_str(), 0);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  [[nodiscard]] Descriptor& file() { return file_; }

  /// Of an older file. What another user's lets all others do is not handed on, nor what its group may do
  /// where this user is not in that group.
  void take_rights(const struct stat& older) {
    struct stat own {};
    if (::fstat(file_.get(), &own) != 0) throw FileError(errno);
    mode_t rights = older.st_mode & (older.st_uid == own.st_uid ? 0777U : 0774U);
    if (own.st_gid != older.st_gid && ::fchown(file_.get(), static_cast<uid_t>(-1), older.st_gid) != 0)
      rights &= ~mode_t{070};
    if (::fchmod(file_.get(), rights) != 0) throw FileError(errno);
  }

  void become(const std::string& name) {
    if (::renameat(folder_->get(), name_.c_str(), folder_->get(), name.c_str()) != 0) throw FileError(errno);
    name_.clear();
  }

  /// Takes away this user's drafts of the same file that nobody has written to for long.
  void sweep(const std::string& name) const {
    struct stat own {};
    if (::fstat(file_.get(), &own) != 0) return;
    std::error_code error;  // of a folder that may not be read
    fs::directory_iterator entry("/proc/self/fd/" + std::to_string(folder_->get()), error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string other = entry->path().filename();
      struct stat facts {};
      if (!is_draft_of(other, name) ||
          ::fstatat(folder_->get(), other.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
        continue;
      if (S_ISREG(facts.st_mode) && facts.st_uid == own.st_uid && facts.st_mtime + kForgotten < own.st_mtime)
        ::unlinkat(folder_->get(), other.c_str(), 0);
    }
  }

 private:
  const Descriptor* folder_;
  std::string name_;
  Descriptor file_;
};

template <class Work>
void name_in_errors(const fs::path& path, const Work& work) {
  try {
    work();
  } catch (const FileError& error) {
    throw std::runtime_error(path.string() + ": cannot be written: " + error.what());
  }
}

}  // namespace

OutputFile::OutputFile(const fs::path& path) {
  resolve(path);
}

void OutputFile::resolve(const fs::path& path) {
  fs::path rest = path;
  for (int links = 0;; ++links) {
    folder_ = open_folder(folder_.is_open() ? folder_.get() : AT_FDCWD, rest.parent_path());
    name_ = rest.filename().empty() ? "." : rest.filename().string();
    if (::fstatat(folder_.get(), name_.c_str(), &facts_, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) throw FileError(errno);
      facts_ = {};
      return;
    }
    if (!S_ISLNK(facts_.st_mode)) return;
    if (links == kMostLinks) throw FileError(ELOOP);
    if (facts_.st_uid != ::geteuid() && facts_.st_uid != 0) throw FileError("is a link of another user");
    if (is_of_kernel(folder_)) {
      struct stat end {};
      if (::fstatat(folder_.get(), name_.c_str(), &end, 0) != 0) throw FileError(errno);
      if (!S_ISREG(end.st_mode) && !S_ISDIR(end.st_mode)) {
        facts_ = end;
        return;
      }
    }
    rest = target_of(folder_, name_);
  }
}

void OutputFile::require_replaceable() const {
  if (!is_new() && !is_regular()) throw FileError(S_ISDIR(facts_.st_mode) ? "is a folder" : "is no file");
}

void OutputFile::replace(const Body& body, mode_t rights) const {
  require_replaceable();
  Draft draft(folder_, name_, is_new() ? rights : 0600);
  draft.sweep(name_);
  if (!is_new()) draft.take_rights(facts_);
  write_to(draft.file(), body);
  draft.become(name_);
}

void OutputFile::try_draft() const {
  require_replaceable();
  const Draft draft(folder_, name_, 0600);
}

void OutputFile::write_stream(const Body& body) const {
  const int follow = is_of_kernel(folder_) ? 0 : O_NOFOLLOW;
  Descriptor stream(::openat(folder_.get(), name_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | follow));
  struct stat facts {};
  if (!stream.is_open() || ::fstat(stream.get(), &facts) != 0) throw FileError(errno);
  if (S_ISREG(facts.st_mode)) throw FileError("became a file");
  write_to(stream, body);
}

void write_file(const fs::path& path, const Body& body) {
  name_in_errors(path, [&] {
    const OutputFile file(path);
    if (file.is_stream())
      file.write_stream(body);
    else
      file.replace(body);
  });
}

void check_writable(const fs::path& path) {
  name_in_errors(path, [&] {
    if (const OutputFile file(path); !file.is_stream()) file.try_draft();
  });
}

}  // namespace files
