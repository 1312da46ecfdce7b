/// @file
/// Which bytes of a block of a datatype are data, as rows that one copy moves. Pure: no MPI, no driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tapa {

/// Data bytes of one element without gaps, from `first` bytes behind its origin on.
struct DataRun {
  std::ptrdiff_t first = 0;
  std::size_t bytes = 0;
  bool operator==(const DataRun&) const = default;
};

/// `rows` rows of `bytes` bytes, each `pitch` bytes behind the one before; the first is `first` bytes behind
/// the block's origin.
struct DataRows {
  std::ptrdiff_t first = 0;
  std::size_t bytes = 0;
  std::size_t rows = 1;
  std::size_t pitch = 0;
  bool operator==(const DataRows&) const = default;
};

/// The runs of an element in order of addresses, by what unpacking has written in images of it: those bytes
/// that are the same in both, one of which was all zeros before, the other all ones. The images begin `first`
/// bytes behind the element's origin.
[[nodiscard]] std::vector<DataRun> written_runs(std::span<const std::byte> zeros,
                                                std::span<const std::byte> ones, std::ptrdiff_t first);

/// As few rows as are seen at once that hold the data of `count` elements, `extent` bytes apart. Each byte of
/// data is in one of them, and no other byte. `element`: in order of addresses, not overlapping.
[[nodiscard]] std::vector<DataRows> rows_of(std::span<const DataRun> element, std::ptrdiff_t extent,
                                            std::size_t count);

}  // namespace tapa
