#include "weights/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

namespace dit {
namespace {

/// Closes a file descriptor on the way out: a mapping does not need it.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) {
      ::close(value_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const auto fail = [&path](const std::string& why) { throw std::runtime_error(path.string() + ": " + why); };
  // Not blocking: opening a pipe that nobody writes to would wait for ever.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    fail("cannot be read: " + std::generic_category().message(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    fail("not a regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) {
    return;  // an empty mapping is an error to mmap
  }
  void* const mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) {
    fail("cannot be mapped: " + std::generic_category().message(errno));
  }
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

}  // namespace dit
