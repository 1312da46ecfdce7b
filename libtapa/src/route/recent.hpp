/// @file
/// A small cache of what a thread did last. Pure: no MPI.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tapa {

/// A number that differs where handles do: MPI's are pointers in Open MPI and integers in MPICH.
template <class Handle>
[[nodiscard]] std::uint64_t number_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<std::uintptr_t>(handle);
  } else {
    return static_cast<std::uint64_t>(handle);
  }
}

/// Values in `Sets` sets (a power of two) of four. Values begin as Value{}, which holds nothing.
template <class Value, std::size_t Sets>
class Recent {
  static_assert(std::has_single_bit(Sets));

 public:
  static constexpr std::size_t kEach = 4;

  /// The first value for which `same` says so, of those that were put under `key`; or null.
  template <class Same>
  [[nodiscard]] Value* find(std::uint64_t key, const Same& same) {
    for (Value& value : set_of(key).values) {
      if (same(value)) return &value;
    }
    return nullptr;
  }

  /// Puts a value in the place of one of its set that does not hold any more, or else of the oldest.
  template <class Holds>
  Value& put(std::uint64_t key, const Value& value, const Holds& holds) {
    Set& set = set_of(key);
    for (Value& old : set.values) {
      if (!holds(old)) return old = value;
    }
    Value& oldest = set.values[set.oldest];
    set.oldest = (set.oldest + 1) % kEach;
    return oldest = value;
  }

 private:
  struct Set {
    std::array<Value, kEach> values{};
    std::size_t oldest = 0;
  };

  Set& set_of(std::uint64_t key) {
    // Fibonacci hashing spreads keys at equal distances, as handles are.
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
    constexpr int bits = std::countr_zero(Sets);
    if constexpr (bits == 0) {
      return sets_[0];
    } else {
      return sets_[static_cast<std::size_t>((key * golden) >> (64 - bits))];
    }
  }

  std::array<Set, Sets> sets_{};
};

}  // namespace tapa
