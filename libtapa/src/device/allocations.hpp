/// @file
/// Which allocations lay behind a registration's addresses when it was made. Addresses outlive memory: what
/// is freed may come back with other memory behind it, of which peers know nothing. Knows no CUDA.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/segments.hpp"

namespace tapa::device {

class Allocations {
 public:
  Allocations() = default;
  /// `id_at(address)` numbers the allocation there, as a std::optional: no later one gets the same, 0 says
  /// that there is none, and nothing that it cannot be told.
  template <class IdAt>
  Allocations(const std::vector<Segment>& segments, const IdAt& id_at) {
    for (const Segment& segment : segments) {
      if (const auto id = id_at(segment.begin); id && *id != 0) parts_.push_back({segment, *id});
    }
  }

  /// Parts of one registration that a caller has just asked for, and that hold.
  struct Asked {
    const Allocations* of = nullptr;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Whether the same allocations lie behind `bytes` bytes from `begin` on, as far as that can be told. What
  /// is `asked` is not asked for again.
  template <class IdAt>
  [[nodiscard]] bool hold(std::uint64_t begin, std::uint64_t bytes, const IdAt& id_at, Asked& asked) const {
    if (bytes == 0) return true;
    for (std::size_t at = first_behind(begin); at < parts_.size(); ++at) {
      const Part& part = parts_[at];
      if (part.where.begin >= begin + bytes) break;
      if (asked.of == this && asked.begin <= at && at < asked.end) continue;
      const auto id = id_at(std::max(begin, part.where.begin));
      if (id && *id != part.id) return false;
      if (asked.of != this || at != asked.end) asked = {this, at, at};
      ++asked.end;
    }
    return true;
  }

 private:
  struct Part {
    Segment where;
    std::uint64_t id;
  };
  /// The part that `begin` lies in, or the next one.
  [[nodiscard]] std::size_t first_behind(std::uint64_t begin) const {
    const auto found = std::upper_bound(
        parts_.begin(), parts_.end(), begin,
        [](std::uint64_t at, const Part& part) { return at < part.where.begin + part.where.bytes; });
    return static_cast<std::size_t>(found - parts_.begin());
  }
  std::vector<Part> parts_;  ///< in order; those that have numbers
};

}  // namespace tapa::device
