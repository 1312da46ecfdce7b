#include <stdexcept>

#include "layout/layout.hpp"

namespace dit {

Range even_part(std::int64_t total, std::int64_t count, std::int64_t index) {
  if (total < 0 || count < 1 || index < 0 || index >= count) {
    throw std::invalid_argument("part " + std::to_string(index) + " of " + std::to_string(count) + " of " +
                                std::to_string(total) + " things: expected total >= 0 and 0 <= part < count");
  }
  return {total * index / count, total * (index + 1) / count};
}

}  // namespace dit
