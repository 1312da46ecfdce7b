#include "transfer/strided_blocks.hpp"

#include <algorithm>

namespace dit {
namespace {

constexpr std::size_t kMostPlanes = 1 << 21;

// Rows of one sample that lie at the tensor's row stride.
struct Stretch {
  std::int64_t sample, row, rows;
};

// A loop over things at equal distances, in bytes.
struct Level {
  std::size_t count, stride;
};

std::vector<Stretch> stretches_of(const PeerBlock& block, const TensorShape& shape) {
  std::vector<Stretch> stretches;
  for (const RowRun& run : block.runs) {
    std::int64_t row = run.offset / shape.row_elements();  // of all samples
    for (std::int64_t left = run.rows; left > 0;) {
      const std::int64_t rows = std::min(left, shape.rows - row % shape.rows);
      stretches.push_back({row / shape.rows, row % shape.rows, rows});
      row += rows;
      left -= rows;
    }
  }
  return stretches;
}

// Whether samples follow each other with the same rows in each.
bool alike(const std::vector<Stretch>& stretches) {
  for (std::size_t i = 1; i < stretches.size(); ++i)
    if (stretches[i].sample != stretches[i - 1].sample + 1 || stretches[i].row != stretches[0].row ||
        stretches[i].rows != stretches[0].rows)
      return false;
  return true;
}

// Joins levels, from the outermost to the innermost, and those at the end with the row.
void join(std::vector<Level>& levels, std::size_t& row_bytes) {
  std::erase_if(levels, [](const Level& level) { return level.count == 1; });
  for (std::size_t i = levels.size(); i-- > 0;) {
    if (i + 1 == levels.size() && levels[i].stride == row_bytes) {
      row_bytes *= levels[i].count;
      levels.pop_back();
    } else if (i + 1 < levels.size() && levels[i].stride == levels[i + 1].count * levels[i + 1].stride) {
      levels[i + 1].count *= levels[i].count;
      levels.erase(levels.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

}  // namespace

std::optional<BlockBox> box_of(const PeerBlock& block, const TensorShape& shape) {
  if (block.elements() == 0) return BlockBox{};
  const std::vector<Stretch> stretches = stretches_of(block, shape);
  if (!alike(stretches)) return std::nullopt;
  return BlockBox{stretches[0].sample,
                  static_cast<std::int64_t>(stretches.size()),
                  stretches[0].row,
                  stretches[0].rows,
                  block.runs.front().offset % shape.row_elements() / shape.head_dim,
                  block.row_elements / shape.head_dim};
}

std::optional<dit_strided_block> strided_block(const PeerBlock& block, std::size_t element_bytes,
                                               const TensorShape& shape, const TensorStrides& strides) {
  if (block.elements() == 0) return dit_strided_block{};
  const std::optional<BlockBox> box = box_of(block, shape);
  if (!box) return std::nullopt;
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_bytes;
  };
  std::size_t row_bytes = bytes(shape.head_dim);
  std::vector<Level> levels{{static_cast<std::size_t>(box->samples), bytes(strides.batch)},
                            {static_cast<std::size_t>(box->rows), bytes(strides.row)},
                            {static_cast<std::size_t>(box->heads), bytes(strides.head)}};
  join(levels, row_bytes);
  const bool apart = std::all_of(levels.begin(), levels.end(),
                                 [&](const Level& level) { return level.stride >= row_bytes; });
  if (levels.size() > 2 || !apart || (levels.size() == 2 && levels[0].count >= kMostPlanes))
    return std::nullopt;
  const Level rows = levels.empty() ? Level{1, row_bytes} : levels.back();
  const Level planes = levels.size() < 2 ? Level{1, 0} : levels.front();
  return dit_strided_block{
      bytes(box->sample * strides.batch + box->row * strides.row + box->head * strides.head),
      row_bytes,
      rows.count,
      rows.stride,
      planes.count,
      planes.stride};
}

std::optional<std::vector<dit_strided_block>> strided_blocks(std::span<const PeerBlock> peers,
                                                             std::size_t element_bytes,
                                                             const TensorShape& shape,
                                                             const TensorStrides& strides) {
  std::vector<dit_strided_block> blocks;
  for (const PeerBlock& peer : peers) {
    const auto block = strided_block(peer, element_bytes, shape, strides);
    if (!block) return std::nullopt;
    blocks.push_back(*block);
  }
  return blocks;
}

std::vector<dit_strided_block> strided_blocks(std::span<const dit_block> blocks) {
  std::vector<dit_strided_block> strided;
  for (const dit_block& block : blocks)
    strided.push_back({block.bytes > 0 ? block.offset : 0, block.bytes, 1, block.bytes, 1, 0});
  return strided;
}

std::vector<ExchangeLayout> strided_parts(const UlyssesLayout& layout, AttentionTensor tensor, int rank,
                                          int group, int groups) {
  const bool joint = layout.shape().text_tokens > 0 && layout.shape().image_tokens > 0;
  if (!joint) return {layout.exchange(tensor, rank, group, groups)};
  return {layout.exchange(tensor, rank, group, groups, TokenPart::image),
          layout.exchange(tensor, rank, group, groups, TokenPart::text)};
}

}  // namespace dit
