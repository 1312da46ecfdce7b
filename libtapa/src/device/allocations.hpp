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

  /// Whether the same allocations lie behind `bytes` bytes from `begin` on, as far as that can be told.
  /// `asked`: the end of the addresses that need not be asked for again, since the caller has just done so;
  /// 0: none.
  template <class IdAt>
  [[nodiscard]] bool hold(std::uint64_t begin, std::uint64_t bytes, const IdAt& id_at,
                          std::uint64_t& asked) const {
    if (bytes == 0) return true;
    for (auto part = first_behind(begin); part != parts_.end() && part->where.begin < begin + bytes; ++part) {
      const std::uint64_t end = part->where.begin + part->where.bytes;
      if (end == asked) continue;
      const auto id = id_at(std::max(begin, part->where.begin));
      if (id && *id != part->id) return false;
      asked = end;
    }
    return true;
  }

 private:
  struct Part {
    Segment where;
    std::uint64_t id;
  };
  /// The part that `begin` lies in, or the next one.
  [[nodiscard]] std::vector<Part>::const_iterator first_behind(std::uint64_t begin) const {
    return std::upper_bound(parts_.begin(), parts_.end(), begin, [](std::uint64_t at, const Part& part) {
      return at < part.where.begin + part.where.bytes;
    });
  }
  std::vector<Part> parts_;  ///< in order; those that have numbers
};

}  // namespace tapa::device
