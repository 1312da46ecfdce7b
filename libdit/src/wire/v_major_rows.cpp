// Which rows travel, and how ranks tell each other.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "wire/v_major.hpp"

namespace dit {
namespace {

void require_rows(std::int64_t rows) {
  if (rows < 0 || rows > std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument("rows = " + std::to_string(rows) + ": expected 0 to 4294967295");
  }
}

// Smaller for larger scores; equal for equal ones (0 and -0); smallest for NaN.
std::uint32_t descending(float score) {
  if (std::isnan(score)) {
    return 0;
  }
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);  // -0 + 0 = 0
  const bool negative = bits >> 31U != 0;
  return ~(negative ? ~bits : bits ^ 0x80000000U);
}

}  // namespace

std::int64_t active_row_count(std::int64_t rows, double ratio) {
  require_rows(rows);
  if (!(ratio >= 0 && ratio <= 1)) {
    throw std::invalid_argument("ratio = " + std::to_string(ratio) + ": expected 0 to 1");
  }
  return rows - static_cast<std::int64_t>(std::floor(ratio * static_cast<double>(rows)));
}

std::vector<std::uint32_t> choose_active_rows(std::span<const float> scores, double ratio) {
  const std::int64_t count = active_row_count(static_cast<std::int64_t>(scores.size()), ratio);
  // Order and row number in one word: all words differ, so that the choice depends on nothing else.
  std::vector<std::uint64_t> keys(scores.size());
  for (std::size_t row = 0; row < scores.size(); ++row) {
    keys[row] = std::uint64_t{descending(scores[row])} << 32U | row;
  }
  const auto end = keys.begin() + count;
  if (end != keys.end()) {
    std::nth_element(keys.begin(), end, keys.end());
  }
  std::vector<std::uint32_t> active;
  active.reserve(static_cast<std::size_t>(count));
  std::transform(keys.begin(), end, std::back_inserter(active),
                 [](std::uint64_t key) { return static_cast<std::uint32_t>(key); });
  std::sort(active.begin(), active.end());
  return active;
}

std::size_t row_mask_bytes(std::int64_t rows) {
  require_rows(rows);
  return static_cast<std::size_t>(rows + 7) / 8;
}

std::vector<std::uint8_t> rows_to_mask(std::span<const std::uint32_t> active, std::int64_t rows) {
  std::vector<std::uint8_t> mask(row_mask_bytes(rows));
  for (const std::uint32_t row : active) {
    if (row >= rows) {
      throw std::invalid_argument("active row " + std::to_string(row) +
                                  ": expected less than rows = " + std::to_string(rows));
    }
    mask[row / 8] = static_cast<std::uint8_t>(mask[row / 8] | 1U << row % 8);
  }
  return mask;
}

std::vector<std::uint32_t> mask_to_rows(std::span<const std::uint8_t> mask, std::int64_t rows) {
  if (mask.size() != row_mask_bytes(rows)) {
    throw std::invalid_argument("row mask of " + std::to_string(mask.size()) + " bytes: expected " +
                                std::to_string(row_mask_bytes(rows)) + " for " + std::to_string(rows) +
                                " rows");
  }
  std::vector<std::uint32_t> active;
  for (std::size_t byte = 0; byte < mask.size(); ++byte) {
    for (unsigned bits = mask[byte]; bits != 0; bits &= bits - 1) {
      active.push_back(
          static_cast<std::uint32_t>(byte * 8 + static_cast<std::size_t>(std::countr_zero(bits))));
    }
  }
  if (!active.empty() && active.back() >= rows) {
    throw std::invalid_argument("row mask has row " + std::to_string(active.back()) +
                                ": expected none at or beyond rows = " + std::to_string(rows));
  }
  return active;
}

}  // namespace dit
