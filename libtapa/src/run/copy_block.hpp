/// @file
/// A copy of a block that is often short.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tapa {

/// Of short blocks, calling a function to copy them takes longer than the copy.
inline void copy_block(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto ends = [&](auto part) {  // two parts that may overlap
    std::memcpy(&part, from, sizeof part);
    auto last = part;
    std::memcpy(&last, from + bytes - sizeof part, sizeof part);
    std::memcpy(to, &part, sizeof part);
    std::memcpy(to + bytes - sizeof part, &last, sizeof part);
  };
  if (bytes > 64 || bytes < 8) {
    std::memcpy(to, from, bytes);
  } else if (bytes > 32) {
    ends(std::array<std::byte, 32>{});
  } else if (bytes > 16) {
    ends(std::array<std::byte, 16>{});
  } else {
    ends(std::uint64_t{});
  }
}

}  // namespace tapa
