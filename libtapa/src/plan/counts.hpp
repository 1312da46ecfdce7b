/// @file
/// How many bytes each rank sends to each other rank, as far as one rank has to know it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tapa {

/// Bytes of every block (src, dst). A planner asks only for blocks that its rank touches, so a rank that
/// knows its group's rows and columns can plan without the whole matrix.
class Counts {
 public:
  /// Every block has `bytes` bytes.
  static Counts uniform(int ranks, std::size_t bytes);

  /// The whole matrix, row-major: matrix[src * ranks + dst].
  static Counts matrix(int ranks, std::vector<std::size_t> matrix);

  /// Rows and columns of the ranks in `known` only: rows[i*ranks + dst] is what known[i] sends to dst,
  /// columns[i*ranks + src] what known[i] receives from src.
  static Counts partial(int ranks, std::vector<int> known, std::vector<std::size_t> rows,
                        std::vector<std::size_t> columns);

  /// The same with blocks so many times as long.
  [[nodiscard]] Counts times(std::size_t factor) const;

  [[nodiscard]] int ranks() const { return ranks_; }

  /// Whether the block's size is known here.
  [[nodiscard]] bool knows(int src, int dst) const;

  /// Bytes of the block. Precondition: knows(src, dst).
  [[nodiscard]] std::size_t bytes(int src, int dst) const;

  /// The block size when all blocks are alike by construction (uniform()), else npos.
  [[nodiscard]] std::size_t uniform_bytes() const { return kind_ == Kind::uniform ? uniform_ : npos; }

  static constexpr std::size_t npos = static_cast<std::size_t>(-1);

 private:
  enum class Kind { uniform, matrix, partial };
  Kind kind_ = Kind::uniform;
  int ranks_ = 0;
  std::size_t uniform_ = 0;
  std::vector<std::size_t> rows_;     // matrix: all rows; partial: the known ones
  std::vector<std::size_t> columns_;  // partial only
  std::vector<int> slot_;             // partial: rank -> index in rows_/columns_, or -1
};

}  // namespace tapa
