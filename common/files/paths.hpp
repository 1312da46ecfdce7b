/// @file
/// Where a process began, and where its parts lie, however it changes its folder later.
#pragma once

#include <filesystem>

namespace files {

/// The path, from the folder that was the current one when this library was loaded; empty where it is
/// relative and that folder had no name.
[[nodiscard]] std::filesystem::path from_first_folder(const std::filesystem::path& path);

/// The folder of the shared library that holds this function; empty where that is the program itself.
[[nodiscard]] const std::filesystem::path& library_folder();

/// The folder of the program; empty where it has more rights than its user, who may have put a hard link to
/// it anywhere.
[[nodiscard]] std::filesystem::path program_folder();

}  // namespace files
