/// A file as memory, read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace dit {

/// Maps a whole regular file; pages are read when they are touched. Throws std::runtime_error that names the
/// path.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace dit
