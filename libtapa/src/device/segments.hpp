/// @file
/// Which allocations a range of addresses lies in, where several may be mapped side by side. Knows no CUDA.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tapa::device {

/// Addresses that one allocation is mapped at.
struct Segment {
  std::uint64_t begin;
  std::uint64_t bytes;
};

/// The segments that hold `bytes` (more than 0) bytes from `begin` on, in order. `segment_at(address)` gives
/// the one that an address lies in, or nothing. None when some of the bytes lie in no segment.
template <class SegmentAt>
[[nodiscard]] std::vector<Segment> segments_of(std::uint64_t begin, std::uint64_t bytes,
                                               const SegmentAt& segment_at) {
  std::vector<Segment> found;
  const std::uint64_t end = begin + bytes;
  for (std::uint64_t at = begin; at < end;) {
    const std::optional<Segment> segment = segment_at(at);
    if (!segment || segment->begin > at || segment->begin + segment->bytes <= at) return {};
    if (!found.empty() && segment->begin != at) return {};
    found.push_back(*segment);
    at = segment->begin + segment->bytes;
  }
  return found;
}

}  // namespace tapa::device
