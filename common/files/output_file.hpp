/// @file
/// Files that are there whole or not at all, also in folders in which others may write.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

#include "files/input_file.hpp"

namespace files {

using Body = std::function<void(std::ostream&)>;

/// The place of a file that is to be written: its folder, opened once, and its name there. All that follows
/// is relative to that folder, so that nobody can put another file into its place meanwhile. A link stays,
/// and what it leads to is written; a link of another user is refused.
class OutputFile {
 public:
  /// Throws FileError, as all of these do.
  explicit OutputFile(const std::filesystem::path& path);

  /// What lay there at first: nothing, a regular file, a folder, or what takes bytes as they come.
  [[nodiscard]] bool is_new() const { return facts_.st_mode == 0; }
  [[nodiscard]] bool is_regular() const { return S_ISREG(facts_.st_mode); }
  [[nodiscard]] bool is_stream() const { return !is_new() && !is_regular() && !S_ISDIR(facts_.st_mode); }

  /// The regular file that lies there now.
  [[nodiscard]] Descriptor open_regular() const { return open_regular_in(folder_, name_); }

  /// Writes a draft beside it and renames it. A file that was there hands on its rights and its group; a new
  /// one gets `rights`, less what the process's mask takes away. After an error, or what `body` throws, no
  /// draft is left and an older file is as it was. Drafts of processes that were killed go after an hour.
  void replace(const Body& body, mode_t rights = 0666) const;

  /// Makes a draft and takes it away again.
  void try_draft() const;

  /// A pipe or a device.
  void write_stream(const Body& body) const;

 private:
  void resolve(const std::filesystem::path& path);
  void require_replaceable() const;

  Descriptor folder_;
  std::string name_;
  struct stat facts_ {};
};

/// Writes a file, a pipe or a device. Throws std::runtime_error: "PATH: cannot be written: WHY".
void write_file(const std::filesystem::path& path, const Body& body);

/// Before long work: throws as write_file would for a file that cannot be made.
void check_writable(const std::filesystem::path& path);

}  // namespace files
