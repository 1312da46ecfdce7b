/// @file
/// Which rows of which blocks travel in a selective all-to-all, as one rank sees it, and copying of rows.
/// Pure: no MPI.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tapa {

/// Consecutive rows of a block.
struct RowRun {
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(const RowRun&) const = default;
};

/// The rows of one block that travel.
struct BlockRows {
  std::size_t rows = 0;        ///< of the whole block
  std::size_t travelling = 0;  ///< rows in `runs`
  std::vector<RowRun> runs;    ///< ascending, not touching
};

/// Joins ascending distinct indices to runs.
[[nodiscard]] std::vector<RowRun> runs_of(std::span<const int> indices);

/// Checks the list of active rows of one block: every index within 0 .. rows-1, ascending, distinct. Throws
/// std::invalid_argument that names the entry (`first` is the place of the list's first entry in the caller's
/// array), the block (`block`: "the block for rank 3"), its value and what was expected.
void check_active(std::span<const int> active, std::size_t rows, std::size_t first, const std::string& block);

/// A block of `rows` rows between two ranks whose fastest common level is `level`: only the active rows
/// travel when the level is `boundary` or slower, else all do.
[[nodiscard]] BlockRows travelling_rows(std::size_t rows, std::span<const int> active, int level,
                                        int boundary);

/// What one rank knows of an agreed selection.
class RowSelection {
 public:
  /// `send[d]` and `recv[s]` are the blocks of this rank; `counts` holds the travelling rows of all pairs,
  /// row-major, or nothing when this rank does not know them.
  RowSelection(int rank, std::vector<BlockRows> send, std::vector<BlockRows> recv,
               std::vector<unsigned> counts);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(send_.size()); }
  [[nodiscard]] const BlockRows& send(int dst) const { return send_[static_cast<std::size_t>(dst)]; }
  [[nodiscard]] const BlockRows& recv(int src) const { return recv_[static_cast<std::size_t>(src)]; }

  /// Bytes to and from other ranks with rows of `rowbytes`.
  [[nodiscard]] std::size_t bytes_sent(std::size_t rowbytes) const;
  [[nodiscard]] std::size_t bytes_received(std::size_t rowbytes) const;

  /// Bytes of all pairs, row-major; empty when unknown.
  [[nodiscard]] std::vector<std::size_t> matrix(std::size_t rowbytes) const;

 private:
  int rank_;
  std::vector<BlockRows> send_;
  std::vector<BlockRows> recv_;
  std::vector<unsigned> counts_;
};

/// Copies the rows of `runs` out of a block into packed memory, one copy for each run.
void gather_rows(const std::byte* block, std::size_t rowbytes, std::span<const RowRun> runs, std::byte* to);

/// The reverse; other rows of the block are not touched.
void scatter_rows(const std::byte* from, std::byte* block, std::size_t rowbytes,
                  std::span<const RowRun> runs);

}  // namespace tapa
