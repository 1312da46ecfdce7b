/// When rows last travelled, without touching those that did not: each row has the number of its step, all
/// together that in which all of them did.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace dit {

class RowSteps {
 public:
  [[nodiscard]] std::uint32_t now() const { return now_; }
  void next() { ++now_; }
  /// All rows travel, or what travelled `age` steps ago.
  void all_travel(std::uint32_t age = 0) { all_ = now_ - age; }
  /// Of a row whose own number is `travelled`.
  [[nodiscard]] std::uint32_t age(std::uint32_t travelled) const {
    return std::min<std::uint32_t>(now_ - std::max(travelled, all_),
                                   std::numeric_limits<std::uint16_t>::max());
  }
  /// Rows of this number or a smaller one would be `most_age` steps old after the next one; -1: none. 0: any
  /// age will do.
  [[nodiscard]] std::int64_t old_step(int most_age) const {
    const std::int64_t old = std::int64_t{now_} + 1 - most_age;
    return most_age == 0 || all_ > old ? -1 : old;
  }

 private:
  std::uint32_t now_ = 0;
  std::uint32_t all_ = 0;
};

}  // namespace dit
