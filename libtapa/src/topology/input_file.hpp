/// @file
/// Files that a user names, read as files/input_file.hpp says.
#pragma once

#include <cstddef>
#include <string>

namespace tapa {

/// Text of the regular file at `path`, of at most `most` bytes. Throws std::invalid_argument "ORIGIN: what is
/// wrong, expected EXPECTED".
[[nodiscard]] std::string read_input_file(const std::string& path, std::size_t most,
                                          const std::string& origin, const std::string& expected);

}  // namespace tapa
