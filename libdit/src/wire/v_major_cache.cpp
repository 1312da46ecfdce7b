// What the caches hold: ages of rows, and bytes.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "wire/v_major.hpp"

namespace dit {
namespace {

constexpr int kNever = std::numeric_limits<int>::min();

int age_of(int brought, std::int64_t row, int step) {
  if (brought == kNever) {
    throw std::logic_error("cached row " + std::to_string(row) + " was never brought");
  }
  if (brought > step) {
    throw std::logic_error("cached row " + std::to_string(row) + " was brought in step " +
                           std::to_string(brought) + ", after step " + std::to_string(step));
  }
  return step - brought;
}

// Sizes of caches, refused when they do not fit in 64 bits.
class ByteCount {
 public:
  explicit ByteCount(std::uint64_t value) : value_(value) {}
  ByteCount& operator*=(std::uint64_t factor) {
    return checked(!__builtin_mul_overflow(value_, factor, &value_));
  }
  ByteCount& operator+=(std::uint64_t more) {
    return checked(!__builtin_add_overflow(value_, more, &value_));
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  ByteCount& checked(bool fits) {
    if (!fits) {
      throw std::length_error("the V-Major caches need more than 2^64 bytes");
    }
    return *this;
  }
  std::uint64_t value_;
};

std::uint64_t at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw std::invalid_argument(std::string(name) + " = " + std::to_string(value) + ": expected at least " +
                                std::to_string(least));
  }
  return static_cast<std::uint64_t>(value);
}

}  // namespace

RowAges::RowAges(std::int64_t rows) : step_of_(at_least("rows", rows, 0), kNever) {}

std::size_t RowAges::place(std::int64_t row) const {
  if (row < 0 || row >= static_cast<std::int64_t>(step_of_.size())) {
    throw std::out_of_range("cached row " + std::to_string(row) + ": expected 0 to " +
                            std::to_string(static_cast<std::int64_t>(step_of_.size()) - 1));
  }
  return static_cast<std::size_t>(row);
}

void RowAges::brought(std::span<const std::uint32_t> rows, int step) {
  for (const std::uint32_t row : rows) {
    step_of_[place(row)] = step;
  }
}

void RowAges::brought_all(int step) {
  std::fill(step_of_.begin(), step_of_.end(), step);
}

int RowAges::age(std::int64_t row, int step) const {
  return age_of(step_of_[place(row)], row, step);
}

int RowAges::oldest(int step) const {
  int oldest = 0;
  for (std::size_t row = 0; row < step_of_.size(); ++row) {
    oldest = std::max(oldest, age(static_cast<std::int64_t>(row), step));
  }
  return oldest;
}

double RowAges::mean(int step) const {
  double sum = 0;
  for (std::size_t row = 0; row < step_of_.size(); ++row) {
    sum += age(static_cast<std::int64_t>(row), step);
  }
  return step_of_.empty() ? 0 : sum / static_cast<double>(step_of_.size());
}

bool RowAges::complete() const {
  return std::find(step_of_.begin(), step_of_.end(), kNever) == step_of_.end();
}

CacheBytes cache_bytes(const CacheShape& shape) {
  const std::uint64_t copies = at_least("layers", shape.layers, 0) * at_least("branches", shape.branches, 1);
  ByteCount reference(at_least("own_rows", shape.own_rows, 0));
  reference *= at_least("row_elements", shape.row_elements, 0);
  ByteCount received(at_least("received_key_elements", shape.received_key_elements, 0));
  received *= 2;
  received += at_least("received_query_elements", shape.received_query_elements, 0);
  for (ByteCount* bytes : {&reference, &received}) {
    *bytes *= copies;
    *bytes *= shape.element_bytes;
  }
  ByteCount total = reference;
  total += received.value();
  return {reference.value(), received.value()};
}

void require_cache_budget(const CacheBytes& bytes, std::optional<std::uint64_t> budget) {
  if (budget && bytes.total() > *budget) {
    throw std::length_error(
        "the V-Major caches need " + std::to_string(bytes.total()) + " bytes on a rank, the budget is " +
        std::to_string(*budget) +
        ": expected more ranks, one guidance branch per group of ranks, a smaller image, or a "
        "budget of at least " +
        std::to_string(bytes.total()));
  }
}

}  // namespace dit
