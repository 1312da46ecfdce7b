/// @file
/// Where the bytes of a buffer come from, as runs of bytes of send blocks: what the verifier replays a plan
/// on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tapa {

/// Some bytes of the block that src sends to dst, beginning at `offset`; src is -1 for bytes never written.
struct Origin {
  std::int32_t src = -1;
  std::int32_t dst = -1;
  std::size_t offset = 0;
  std::size_t bytes = 0;

  /// Whether `next` holds the bytes that follow these in the same block.
  [[nodiscard]] bool continues_in(const Origin& next) const {
    return src == next.src && dst == next.dst && (src < 0 || offset + bytes == next.offset);
  }
};

/// Appends, joining what continues.
void append(std::vector<Origin>& stream, const Origin& origin);

/// A buffer as sorted runs of known origin.
class OriginMap {
 public:
  /// Appends the origins of [begin, end) to `stream`.
  void read(std::size_t begin, std::size_t end, std::vector<Origin>& stream) const;

  /// Replaces the origins from `begin` on. Returns whether any of these bytes had been written before.
  bool write(std::size_t begin, std::span<const Origin> origins);

  /// Calls visit(begin, end) for each run of [0, size) that has never been written.
  void for_gaps(std::size_t size, const std::function<void(std::size_t, std::size_t)>& visit) const;

 private:
  struct Run {
    std::size_t begin = 0;
    Origin origin;
    [[nodiscard]] std::size_t end() const { return begin + origin.bytes; }
  };
  /// Index of the first run that ends after `place`.
  [[nodiscard]] std::size_t find(std::size_t place) const;

  std::vector<Run> runs_;
  std::vector<Run> fresh_;  // kept between writes for its memory
};

}  // namespace tapa
