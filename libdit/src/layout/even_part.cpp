#include <stdexcept>

#include "layout/layout.hpp"

namespace dit {

Range even_part(std::int64_t total, std::int64_t count, std::int64_t index) {
  if (total < 0 || count < 1 || index < 0 || index >= count) {
    throw std::invalid_argument("part " + std::to_string(index) + " of " + std::to_string(count) + " of " +
                                std::to_string(total) + " things: expected total >= 0 and 0 <= part < count");
  }
  // floor(total * i / count), where total * i may be too large.
  const auto begin_of = [&](std::int64_t i) { return total / count * i + total % count * i / count; };
  return {begin_of(index), begin_of(index + 1)};
}

}  // namespace dit
