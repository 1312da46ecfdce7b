#include "plan/counts.hpp"

#include <cassert>
#include <utility>

namespace tapa {

namespace {
std::size_t at(int row, int ranks, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(column);
}
}  // namespace

Counts Counts::uniform(int ranks, std::size_t bytes) {
  Counts c;
  c.ranks_ = ranks;
  c.uniform_ = bytes;
  return c;
}

Counts Counts::matrix(int ranks, std::vector<std::size_t> matrix) {
  assert(matrix.size() == at(ranks, ranks, 0));
  Counts c;
  c.kind_ = Kind::matrix;
  c.ranks_ = ranks;
  c.rows_ = std::move(matrix);
  return c;
}

Counts Counts::partial(int ranks, std::vector<int> known, std::vector<std::size_t> rows,
                       std::vector<std::size_t> columns) {
  assert(rows.size() == at(static_cast<int>(known.size()), ranks, 0));
  assert(columns.size() == rows.size());
  Counts c;
  c.kind_ = Kind::partial;
  c.ranks_ = ranks;
  c.rows_ = std::move(rows);
  c.columns_ = std::move(columns);
  c.slot_.assign(static_cast<std::size_t>(ranks), -1);
  for (std::size_t i = 0; i < known.size(); ++i)
    c.slot_[static_cast<std::size_t>(known[i])] = static_cast<int>(i);
  return c;
}

Counts Counts::times(std::size_t factor) const {
  Counts c = *this;
  c.uniform_ *= factor;
  for (std::size_t& bytes : c.rows_) bytes *= factor;
  for (std::size_t& bytes : c.columns_) bytes *= factor;
  return c;
}

bool Counts::knows(int src, int dst) const {
  return kind_ != Kind::partial || slot_[static_cast<std::size_t>(src)] >= 0 ||
         slot_[static_cast<std::size_t>(dst)] >= 0;
}

std::size_t Counts::bytes(int src, int dst) const {
  if (kind_ == Kind::uniform) return uniform_;
  if (kind_ == Kind::matrix) return rows_[at(src, ranks_, dst)];
  assert(knows(src, dst));
  const int row = slot_[static_cast<std::size_t>(src)];
  if (row >= 0) return rows_[at(row, ranks_, dst)];
  return columns_[at(slot_[static_cast<std::size_t>(dst)], ranks_, src)];
}

}  // namespace tapa
