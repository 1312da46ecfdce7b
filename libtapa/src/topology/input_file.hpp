/// @file
/// Files that a user names. They are untrusted: nothing is read beyond a limit.
#pragma once

#include <cstddef>
#include <string>

namespace tapa {

/// Text of the file at `path`, of at most `most` bytes, counted while it is read: devices and pipes have no
/// size. Throws std::invalid_argument "ORIGIN: what is wrong, expected EXPECTED".
[[nodiscard]] std::string read_input_file(const std::string& path, std::size_t most,
                                          const std::string& origin, const std::string& expected);

}  // namespace tapa
