/// Files that are there whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>

namespace dit {

/// Writes PATH.part, then renames it; after an error (std::runtime_error that names the path, or what `body`
/// throws) neither a draft is left nor an older file changed.
void write_atomically(const std::filesystem::path& path, const std::function<void(std::ostream&)>& body);

}  // namespace dit
