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

// Rows of a block at equal distances in a tensor, in elements, as pieces that lie so far apart: whole rows,
// or heads.
struct EvenRows {
  std::int64_t first, stride, rows;
  std::int64_t piece, piece_stride;
};

// Calls use(EvenRows) for a run of a tensor that is not dense, each of one sample.
template <typename Use>
void for_each_sample(const PeerBlock& block, const RowRun& run, const TensorShape& shape,
                     const TensorStrides& strides, Use use) {
  const std::int64_t width = shape.row_elements();
  if (block.row_elements % shape.head_dim != 0 || run.offset % shape.head_dim != 0 ||
      (run.rows > 1 && run.stride != width)) {
    throw std::invalid_argument("a block is not of whole heads of the tensor's rows");
  }
  std::int64_t row = run.offset / width;  // of all samples
  for (std::int64_t left = run.rows; left > 0;) {
    const std::int64_t rows = std::min(left, shape.rows - row % shape.rows);
    const std::int64_t first = row / shape.rows * strides.batch + row % shape.rows * strides.row +
                               run.offset % width / shape.head_dim * strides.head;
    const std::int64_t piece = strides.head == shape.head_dim ? block.row_elements : shape.head_dim;
    use(EvenRows{first, strides.row, rows, piece, strides.head});
    row += rows;
    left -= rows;
  }
}

// Calls use(EvenRows) for all rows of a block, in their order.
template <typename Byte, typename Use>
void for_each_rows(const PeerBlock& block, const StridedTensor<Byte>& tensor, Use use) {
  const bool dense = tensor.is_dense();
  for (const RowRun& run : block.runs) {
    if (run.rows == 0 || block.row_elements == 0) continue;
    if (dense) {
      use(EvenRows{run.offset, run.stride, run.rows, block.row_elements, block.row_elements});
    } else {
      for_each_sample(block, run, tensor.shape, tensor.strides, use);
    }
  }
}

const SourceTensor& to_read(const SourceTensor& tensor) {
  return tensor;
}
SourceTensor to_read(const TargetTensor& tensor) {
  return {tensor.bytes, tensor.shape, tensor.strides};
}

// Checks sizes, then calls copy(first byte in the tensor, stride there, first byte in the buffer, stride
// there, rows, bytes of a row) for all rows of the blocks. Where heads lie apart, each is copied by itself.
template <typename Byte, typename Copy>
void for_each_copy(std::span<const PeerBlock> peers, std::size_t element_bytes,
                   const StridedTensor<Byte>& tensor, std::size_t buffer_bytes, Copy copy) {
  require_in_buffer(peers, element_bytes, buffer_bytes);
  require_in_tensor(peers, element_bytes, to_read(tensor));
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes;
  };
  std::size_t at = 0;
  for (const PeerBlock& block : peers) {
    for_each_rows(block, tensor, [&](const EvenRows& some) {
      for (std::int64_t i = 0; i < block.row_elements / some.piece; ++i) {
        copy(bytes(some.first + i * some.piece_stride), bytes(some.stride), at + bytes(i * some.piece),
             bytes(block.row_elements), static_cast<std::size_t>(some.rows), bytes(some.piece));
      }
      at += bytes(some.rows * block.row_elements);
    });
  }
}

template <typename Byte>
std::vector<EvenRows> rows_of(const PeerBlock& block, std::size_t element_bytes,
                              const StridedTensor<Byte>& tensor) {
  require_in_tensor(std::span(&block, 1), element_bytes, to_read(tensor));
  std::vector<EvenRows> all;
  for_each_rows(block, tensor, [&](const EvenRows& some) { all.push_back(some); });
  return all;
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

void require_in_tensor(std::span<const PeerBlock> peers, std::size_t element_bytes,
                       const SourceTensor& tensor) {
  if (tensor.is_dense()) return require_in_tensor(peers, element_bytes, tensor.bytes.size());
  require_in_tensor(peers, element_bytes, static_cast<std::size_t>(tensor.shape.elements()) * element_bytes);
  require_strides(element_bytes, tensor.shape, tensor.strides, tensor.bytes.size());
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

std::vector<RowCopy> row_copies(const PeerBlock& from, const SourceTensor& source, const PeerBlock& to,
                                const TargetTensor& target, std::size_t element_bytes) {
  if (from.rows() != to.rows() || from.row_elements != to.row_elements) {
    throw std::length_error("a block has " + std::to_string(from.rows()) + " rows of " +
                            std::to_string(from.row_elements) + " elements in the source and " +
                            std::to_string(to.rows()) + " of " + std::to_string(to.row_elements) +
                            " in the target: expected the same");
  }
  const std::vector<EvenRows> here = rows_of(from, element_bytes, source);
  const std::vector<EvenRows> there = rows_of(to, element_bytes, target);
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes;
  };
  std::vector<RowCopy> copies;
  std::int64_t done_here = 0;  // rows of here[i], and of there[j]
  std::int64_t done_there = 0;
  for (std::size_t i = 0, j = 0; i < here.size() && j < there.size();) {
    const EvenRows& a = here[i];
    const EvenRows& b = there[j];
    const std::int64_t rows = std::min(a.rows - done_here, b.rows - done_there);
    const std::int64_t piece = std::min(a.piece, b.piece);
    for (std::int64_t of_row = 0; of_row < from.row_elements / piece; ++of_row) {
      const auto at = [&](const EvenRows& some, std::int64_t done) {
        return bytes(some.first + done * some.stride +
                     of_row * (some.piece == piece ? some.piece_stride : piece));
      };
      copies.push_back({at(b, done_there), bytes(b.stride), at(a, done_here), bytes(a.stride),
                        static_cast<std::size_t>(rows), bytes(piece)});
    }
    done_here += rows;
    done_there += rows;
    if (done_here == a.rows) ++i, done_here = 0;
    if (done_there == b.rows) ++j, done_there = 0;
  }
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
