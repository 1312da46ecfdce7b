/// @file
/// The memory of a message: one or more runs of bytes, in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

namespace tapa {

using Piece = std::span<std::byte>;
using Pieces = std::span<const Piece>;

[[nodiscard]] inline std::size_t bytes_of(Pieces pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.size();
  return bytes;
}

/// Stands for so many bytes of a rank that has no memory for them.
[[nodiscard]] inline Piece nothing(std::size_t bytes) {
  return {static_cast<std::byte*>(nullptr), bytes};
}
[[nodiscard]] inline bool is_nothing(Pieces pieces) {
  return pieces.size() == 1 && pieces.front().data() == nullptr;
}

/// Walks over pieces, which must outlive it.
class PieceCursor {
 public:
  PieceCursor() = default;
  /// The first `left` bytes of them.
  explicit PieceCursor(Pieces pieces, std::size_t left = std::numeric_limits<std::size_t>::max())
      : rest_(pieces), left_(left) {}

  /// The next bytes that lie together, at most `most`; none at the end, or when `most` is 0. Of nothing()
  /// each part is nothing.
  Piece take(std::size_t most) {
    while (!rest_.empty() && offset_ == rest_.front().size()) {
      rest_ = rest_.subspan(1);
      offset_ = 0;
    }
    if (rest_.empty()) return {};
    const Piece& whole = rest_.front();
    const std::size_t count = std::min({most, whole.size() - offset_, left_});
    const Piece here = whole.data() == nullptr ? nothing(count) : whole.subspan(offset_, count);
    offset_ += count;
    left_ -= count;
    return here;
  }

 private:
  Pieces rest_;
  std::size_t offset_ = 0;  // in the first of the rest
  std::size_t left_ = 0;
};

}  // namespace tapa
