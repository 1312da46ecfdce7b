#include "run/selection.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace tapa {

namespace {

std::size_t rows_of(std::span<const RowRun> runs) {
  std::size_t rows = 0;
  for (const RowRun& run : runs) rows += run.count;
  return rows;
}

std::size_t rows_with_others(std::span<const BlockRows> blocks, int rank) {
  std::size_t rows = 0;
  for (std::size_t peer = 0; peer < blocks.size(); ++peer) {
    if (static_cast<int>(peer) != rank) rows += blocks[peer].travelling;
  }
  return rows;
}

}  // namespace

std::vector<RowRun> runs_of(std::span<const int> indices) {
  std::vector<RowRun> runs;
  for (const int index : indices) {
    const auto row = static_cast<std::size_t>(index);
    if (!runs.empty() && runs.back().first + runs.back().count == row) {
      ++runs.back().count;
    } else {
      runs.push_back({row, 1});
    }
  }
  return runs;
}

void check_active(std::span<const int> active, std::size_t rows, std::size_t first,
                  const std::string& block) {
  for (std::size_t i = 0; i < active.size(); ++i) {
    const auto name = [&](std::size_t at) { return "active[" + std::to_string(first + at) + "]"; };
    if (active[i] < 0 || static_cast<std::size_t>(active[i]) >= rows) {
      throw std::invalid_argument(name(i) + " of " + block + " is " + std::to_string(active[i]) +
                                  ", expected a row index of 0 or more and below " + std::to_string(rows));
    }
    if (i > 0 && active[i] <= active[i - 1]) {
      throw std::invalid_argument(name(i) + " of " + block + " is " + std::to_string(active[i]) + " after " +
                                  std::to_string(active[i - 1]) + ", expected ascending distinct indices");
    }
  }
}

BlockRows travelling_rows(std::size_t rows, std::span<const int> active, int level, int boundary) {
  BlockRows block{rows, 0, {}};
  if (level >= boundary) {
    block.runs = runs_of(active);
  } else if (rows > 0) {
    block.runs.push_back({0, rows});
  }
  block.travelling = rows_of(block.runs);
  return block;
}

RowSelection::RowSelection(int rank, std::vector<BlockRows> send, std::vector<BlockRows> recv,
                           std::vector<unsigned> counts)
    : rank_(rank), send_(std::move(send)), recv_(std::move(recv)), counts_(std::move(counts)) {}

std::size_t RowSelection::bytes_sent(std::size_t rowbytes) const {
  return rows_with_others(send_, rank_) * rowbytes;
}

std::size_t RowSelection::bytes_received(std::size_t rowbytes) const {
  return rows_with_others(recv_, rank_) * rowbytes;
}

std::vector<std::size_t> RowSelection::matrix(std::size_t rowbytes) const {
  std::vector<std::size_t> bytes;
  bytes.reserve(counts_.size());
  for (const unsigned rows : counts_) bytes.push_back(rows * rowbytes);
  return bytes;
}

void gather_rows(const std::byte* block, std::size_t rowbytes, std::span<const RowRun> runs, std::byte* to) {
  for (const RowRun& run : runs) {
    const std::size_t bytes = run.count * rowbytes;
    std::memcpy(to, block + run.first * rowbytes, bytes);
    to += bytes;
  }
}

void scatter_rows(const std::byte* from, std::byte* block, std::size_t rowbytes,
                  std::span<const RowRun> runs) {
  for (const RowRun& run : runs) {
    const std::size_t bytes = run.count * rowbytes;
    std::memcpy(block + run.first * rowbytes, from, bytes);
    from += bytes;
  }
}

}  // namespace tapa
