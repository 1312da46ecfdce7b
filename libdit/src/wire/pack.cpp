#include "wire/pack.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace dit {
namespace {

// All sizes are checked against this before they are multiplied, so that none overflows.
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

void require_element_bytes(std::size_t element_bytes) {
  if (element_bytes == 0 || element_bytes > 1024) {
    throw std::invalid_argument("element_bytes = " + std::to_string(element_bytes) + ": expected 1 to 1024");
  }
}

std::string run_name(std::size_t peer, std::size_t run) {
  return "run " + std::to_string(run) + " of the block of peer " + std::to_string(peer);
}

void require_sound(const PeerBlock& block, const RowRun& run, std::size_t peer, std::size_t index) {
  if (run.offset < 0 || run.rows < 0 || run.stride < 0 || block.row_elements < 0) {
    throw std::length_error(run_name(peer, index) + ": offset " + std::to_string(run.offset) + ", " +
                            std::to_string(run.rows) + " rows of " + std::to_string(block.row_elements) +
                            " elements, stride " + std::to_string(run.stride) + ": expected none below 0");
  }
}

// Whether all rows of a run lie in a tensor of so many elements.
bool fits(const PeerBlock& block, const RowRun& run, std::int64_t elements) {
  if (run.rows == 0) {
    return true;
  }
  const std::int64_t room = elements - run.offset;
  return block.row_elements <= room &&
         (run.stride == 0 || (run.rows - 1) <= (room - block.row_elements) / run.stride);
}

std::size_t block_bytes(const PeerBlock& block, std::size_t element_bytes, std::size_t peer) {
  const auto most = kMost / static_cast<std::int64_t>(element_bytes);
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < block.runs.size(); ++i) {
    const RowRun& run = block.runs[i];
    require_sound(block, run, peer, i);
    if (block.row_elements > 0 && run.rows > (most - elements) / block.row_elements) {
      throw std::length_error(run_name(peer, i) + ": " + std::to_string(run.rows) + " rows of " +
                              std::to_string(block.row_elements) + " elements of " +
                              std::to_string(element_bytes) + " bytes are more than 2^63 bytes");
    }
    elements += run.rows * block.row_elements;
  }
  return static_cast<std::size_t>(elements) * element_bytes;
}

void require_in_buffer(std::span<const PeerBlock> peers, std::size_t element_bytes,
                       std::size_t buffer_bytes) {
  const std::size_t needed = packed_bytes(peers, element_bytes);
  if (needed > buffer_bytes) {
    throw std::length_error("the buffer has " + std::to_string(buffer_bytes) + " bytes: the blocks need " +
                            std::to_string(needed));
  }
}

// Rows of a size that the compiler knows: a few instructions each instead of a call.
template <std::size_t row_bytes>
void copy_fixed_rows(std::byte* to, std::size_t to_step, const std::byte* from, std::size_t from_step,
                     std::size_t rows) {
  for (; rows > 0; --rows, to += to_step, from += from_step) {
    std::memcpy(to, from, row_bytes);
  }
}

void copy_rows(std::byte* to, std::size_t to_step, const std::byte* from, std::size_t from_step,
               std::size_t rows, std::size_t row_bytes) {
  if (to_step == row_bytes && from_step == row_bytes) {
    std::memcpy(to, from, rows * row_bytes);
    return;
  }
  switch (row_bytes) {
    case 32:
      return copy_fixed_rows<32>(to, to_step, from, from_step, rows);
    case 64:
      return copy_fixed_rows<64>(to, to_step, from, from_step, rows);
    case 128:
      return copy_fixed_rows<128>(to, to_step, from, from_step, rows);
    default:
      break;
  }
  for (; rows > 0; --rows, to += to_step, from += from_step) {
    std::memcpy(to, from, row_bytes);
  }
}

// Calls copy(run's first byte in the tensor, stride there, run's first byte in the buffer, stride there,
// rows, bytes of a row) for a dense tensor.
template <typename Copy>
void for_each_run(std::span<const PeerBlock> peers, std::size_t element_bytes, Copy copy) {
  std::size_t at = 0;
  for (const PeerBlock& block : peers) {
    const std::size_t row_bytes = static_cast<std::size_t>(block.row_elements) * element_bytes;
    for (const RowRun& run : block.runs) {
      const auto rows = static_cast<std::size_t>(run.rows);
      if (rows > 0 && row_bytes > 0) {
        copy(static_cast<std::size_t>(run.offset) * element_bytes,
             static_cast<std::size_t>(run.stride) * element_bytes, at, row_bytes, rows, row_bytes);
      }
      at += rows * row_bytes;
    }
  }
}

void require_stride(const char* name, std::int64_t stride, std::int64_t count) {
  if (!is_stride(stride, count)) {
    throw std::invalid_argument(std::string(name) + " stride = " + std::to_string(stride) +
                                " elements: expected at least 0, within memory");
  }
}

void require_strides(std::size_t element_bytes, const TensorShape& shape, const TensorStrides& strides,
                     std::size_t tensor_bytes) {
  require_stride("batch", strides.batch, shape.batch);
  require_stride("row", strides.row, shape.rows);
  require_stride("head", strides.head, shape.heads);
  const auto needed = static_cast<std::size_t>(extent(shape, strides)) * element_bytes;
  if (tensor_bytes < needed) {
    throw std::length_error("the tensor has " + std::to_string(tensor_bytes) +
                            " bytes: its shape and strides need " + std::to_string(needed));
  }
}

// Calls copy(first byte in the tensor, stride there, first byte in the buffer, stride there, rows, bytes of a
// row) for all rows of the blocks. A run ends with its sample; where heads lie apart, each is copied by
// itself.
template <typename Copy>
void for_each_piece(std::span<const PeerBlock> peers, std::size_t element_bytes, const TensorShape& shape,
                    const TensorStrides& strides, Copy copy) {
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes;
  };
  const std::int64_t width = shape.row_elements();
  std::size_t at = 0;
  for (const PeerBlock& block : peers) {
    for (const RowRun& run : block.runs) {
      if (run.rows == 0 || block.row_elements == 0) continue;
      if (block.row_elements % shape.head_dim != 0 || run.offset % shape.head_dim != 0 ||
          (run.rows > 1 && run.stride != width)) {
        throw std::invalid_argument("a block is not of whole heads of the tensor's rows");
      }
      const bool together = strides.head == shape.head_dim;
      const std::int64_t piece = together ? block.row_elements : shape.head_dim;
      std::int64_t row = run.offset / width;  // of all samples
      for (std::int64_t left = run.rows; left > 0;) {
        const std::int64_t rows = std::min(left, shape.rows - row % shape.rows);
        const std::int64_t first = row / shape.rows * strides.batch + row % shape.rows * strides.row +
                                   run.offset % width / shape.head_dim * strides.head;
        for (std::int64_t head = 0; head < block.row_elements / piece; ++head) {
          copy(bytes(first + head * strides.head), bytes(strides.row), at + bytes(head * piece),
               bytes(block.row_elements), static_cast<std::size_t>(rows), bytes(piece));
        }
        at += bytes(rows * block.row_elements);
        row += rows;
        left -= rows;
      }
    }
  }
}

/// Checks sizes, then calls copy as for_each_piece or for_each_run do.
template <typename Byte, typename Copy>
void for_each_copy(std::span<const PeerBlock> peers, std::size_t element_bytes,
                   const StridedTensor<Byte>& tensor, std::size_t buffer_bytes, Copy copy) {
  require_in_buffer(peers, element_bytes, buffer_bytes);
  if (tensor.is_dense()) {
    require_in_tensor(peers, element_bytes, tensor.bytes.size());
    return for_each_run(peers, element_bytes, copy);
  }
  require_in_tensor(peers, element_bytes, static_cast<std::size_t>(tensor.shape.elements()) * element_bytes);
  require_strides(element_bytes, tensor.shape, tensor.strides, tensor.bytes.size());
  for_each_piece(peers, element_bytes, tensor.shape, tensor.strides, copy);
}

}  // namespace

void require_in_tensor(std::span<const PeerBlock> peers, std::size_t element_bytes,
                       std::size_t tensor_bytes) {
  const auto elements = static_cast<std::int64_t>(tensor_bytes / element_bytes);
  for (std::size_t peer = 0; peer < peers.size(); ++peer) {
    for (std::size_t i = 0; i < peers[peer].runs.size(); ++i) {
      const RowRun& run = peers[peer].runs[i];
      require_sound(peers[peer], run, peer, i);
      if (!fits(peers[peer], run, elements)) {
        throw std::length_error(run_name(peer, i) + " leaves the tensor: " + std::to_string(run.rows) +
                                " rows of " + std::to_string(peers[peer].row_elements) +
                                " elements from element " + std::to_string(run.offset) + ", stride " +
                                std::to_string(run.stride) + ", in " + std::to_string(elements) +
                                " elements");
      }
    }
  }
}

std::vector<dit_block> packed_blocks(std::span<const PeerBlock> peers, std::size_t element_bytes) {
  require_element_bytes(element_bytes);
  std::vector<dit_block> blocks;
  blocks.reserve(peers.size());
  std::size_t at = 0;
  for (const PeerBlock& block : peers) {
    const std::size_t bytes = block_bytes(block, element_bytes, blocks.size());
    if (bytes > static_cast<std::size_t>(kMost) - at) {
      throw std::length_error("the blocks of " + std::to_string(peers.size()) +
                              " peers are more than 2^63 bytes");
    }
    blocks.push_back({at, bytes});
    at += bytes;
  }
  return blocks;
}

std::size_t packed_bytes(std::span<const PeerBlock> peers, std::size_t element_bytes) {
  const std::vector<dit_block> blocks = packed_blocks(peers, element_bytes);
  return blocks.empty() ? 0 : blocks.back().offset + blocks.back().bytes;
}

void pack(std::span<const PeerBlock> peers, std::size_t element_bytes, const SourceTensor& tensor,
          std::span<std::byte> buffer) {
  for_each_copy(peers, element_bytes, tensor, buffer.size(),
                [&](std::size_t offset, std::size_t stride, std::size_t at, std::size_t step,
                    std::size_t rows, std::size_t row_bytes) {
                  copy_rows(buffer.data() + at, step, tensor.bytes.data() + offset, stride, rows, row_bytes);
                });
}

void unpack(std::span<const PeerBlock> peers, std::size_t element_bytes, std::span<const std::byte> buffer,
            const TargetTensor& tensor) {
  for_each_copy(peers, element_bytes, tensor, buffer.size(),
                [&](std::size_t offset, std::size_t stride, std::size_t at, std::size_t step,
                    std::size_t rows, std::size_t row_bytes) {
                  copy_rows(tensor.bytes.data() + offset, stride, buffer.data() + at, step, rows, row_bytes);
                });
}

std::vector<RowCopy> row_copies(std::span<const PeerBlock> peers, std::size_t element_bytes,
                                const SourceTensor& tensor, std::size_t buffer_bytes) {
  std::vector<RowCopy> copies;
  for_each_copy(peers, element_bytes, tensor, buffer_bytes,
                [&](std::size_t offset, std::size_t stride, std::size_t at, std::size_t step,
                    std::size_t rows, std::size_t row_bytes) {
                  copies.push_back({offset, stride, at, step, rows, row_bytes});
                });
  return copies;
}

std::vector<dit_block> blocks_in_place(std::span<const PeerBlock> peers, std::size_t element_bytes) {
  require_element_bytes(element_bytes);
  std::vector<dit_block> blocks;
  blocks.reserve(peers.size());
  for (const PeerBlock& block : peers) {
    const std::size_t bytes = block_bytes(block, element_bytes, blocks.size());
    if (bytes == 0) {
      blocks.push_back({0, 0});
      continue;
    }
    std::int64_t end = -1;  // of the rows so far; -1: none yet
    std::int64_t begin = 0;
    for (const RowRun& run : block.runs) {
      if (run.rows == 0) {
        continue;
      }
      if ((run.rows > 1 && run.stride != block.row_elements) || (end >= 0 && run.offset != end)) {
        return {};
      }
      begin = end < 0 ? run.offset : begin;
      end = run.offset + run.rows * block.row_elements;
    }
    blocks.push_back({static_cast<std::size_t>(begin) * element_bytes, bytes});
  }
  return blocks;
}

}  // namespace dit
