/// Files that are there whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>

namespace dit {

/// Writes PATH.part, then renames it; after an error (std::runtime_error that names the path, or what `body`
/// throws) neither a draft is left nor an older file changed. Links stay; pipes and devices are written to.
void write_atomically(const std::filesystem::path& path, const std::function<void(std::ostream&)>& body);

/// Before long work: throws std::runtime_error as write_atomically would for a file that cannot be made.
void check_writable(const std::filesystem::path& path);

}  // namespace dit
