/// Rows that a copy between a tensor and a packed buffer moves. Also for device code, so no C++20.
#pragma once

#include <cstddef>

namespace dit {

/// In bytes: row i from tensor + i * tensor_stride to buffer + i * buffer_stride, or back.
struct RowCopy {
  std::size_t tensor;
  std::size_t tensor_stride;
  std::size_t buffer;
  std::size_t buffer_stride;
  std::size_t rows;
  std::size_t row_bytes;
};

}  // namespace dit
