#include "weights/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

#include "files/input_file.hpp"

namespace dit {
namespace {

files::Descriptor open(const std::filesystem::path& path) {
  try {
    return files::open_regular(path);
  } catch (const files::FileError& error) {
    throw std::runtime_error(path.string() + ": cannot be read: " + error.what());
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const files::Descriptor file = open(path);  // a mapping does not need it
  const auto fail = [&path](const std::string& why) { throw std::runtime_error(path.string() + ": " + why); };
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    fail("cannot be read: " + std::generic_category().message(errno));
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
