/// @file
/// A small cache of what a thread did last. Pure: no MPI.
#pragma once

#include <array>
#include <cstddef>

namespace tapa {

/// Values begin as Value{}, which holds nothing.
template <class Value>
class Recent {
 public:
  static constexpr std::size_t kMost = 8;

  /// The first value for which `same` says so, or null.
  template <class Same>
  [[nodiscard]] Value* find(const Same& same) {
    for (Value& value : values_) {
      if (same(value)) return &value;
    }
    return nullptr;
  }

  /// Puts a value in the place of one that does not hold any more, or else of the oldest.
  template <class Holds>
  Value& put(const Value& value, const Holds& holds) {
    Value* place = find([&](const Value& old) { return !holds(old); });
    if (place == nullptr) {
      place = &values_[oldest_];
      oldest_ = (oldest_ + 1) % kMost;
    }
    return *place = value;
  }

 private:
  std::array<Value, kMost> values_{};
  std::size_t oldest_ = 0;
};

}  // namespace tapa
