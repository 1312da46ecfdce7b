/// @file
/// Files that are read because somebody named them. They are untrusted: what was opened is looked at, not its
/// name; nothing is waited for, and nothing is read beyond a limit.
#pragma once

#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "files/descriptor.hpp"

namespace files {

/// Why a file cannot be read or written, without its name.
class FileError : public std::runtime_error {
 public:
  explicit FileError(const std::string& why) : std::runtime_error(why) {}
  explicit FileError(int error);  ///< of errno
  [[nodiscard]] bool is_missing() const;

 private:
  int error_ = 0;
};

/// A regular file; throws FileError for all else, such as pipes, devices and folders.
[[nodiscard]] Descriptor open_regular(const std::filesystem::path& path);
/// The same, below a folder that is open already, and no link.
[[nodiscard]] Descriptor open_regular_in(const Descriptor& folder, const std::string& name);

/// The first `most` bytes, or as many as there are.
[[nodiscard]] std::string read_beginning(const Descriptor& file, std::size_t most);

/// The whole text, of at most `most` bytes, counted while it is read: files of the kernel have no size.
[[nodiscard]] std::string read_text(const std::filesystem::path& path, std::size_t most);

}  // namespace files
