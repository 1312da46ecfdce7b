/// What the device codecs are written for: teams of 32 lanes that work on a segment together. A team gives
/// - each(work): work(lane) of all lanes; what they stored in the room is there afterwards,
/// - Each<T>: a T of each lane, from one each() to the next, by [lane],
/// - most(of): the greatest of of(lane), unsigned 32 bits,
/// - room(): memory of the team, as much as room_of() says, at a multiple of 16,
/// - raise(word, value): makes a word of the room at least `value`, by several lanes at once.
/// On GPUs a team is a warp (cuda_warp.cuh); tests run the lanes one after the other (tests/dit/wire).
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/number_codes.hpp"

namespace dit {

inline constexpr std::uint32_t kTeamLanes = 32;
/// Bytes of a segment's numbers or codes, and of what is remembered of it.
inline constexpr std::size_t kNumbersRoom = 4096;
inline constexpr std::size_t kMemoryRoom = 4096;

/// What is moved at once.
struct alignas(16) Unit {
  std::uint32_t word[4];
};

namespace {

/// Lanes read and write their own `units` (a power of two) units side by side: where unit `unit` of the team
/// lies so that neighbours use different banks.
DIT_SHARED std::uint32_t spread(std::uint32_t unit, std::uint32_t units) {
  return unit ^ (unit >> 3U & (units - 1));
}
DIT_SHARED std::byte* unit_at(std::byte* room, std::uint32_t unit, std::uint32_t units) {
  return room + spread(unit, units) * sizeof(Unit);
}
/// Byte `byte` of memory of lanes with `units` units each.
DIT_SHARED std::byte* byte_at(std::byte* room, std::uint32_t byte, std::uint32_t units) {
  return unit_at(room, byte / static_cast<std::uint32_t>(sizeof(Unit)), units) + byte % sizeof(Unit);
}

/// Of `T`s at multiples of their size.
template <class T>
DIT_SHARED T load(const void* from) {
#ifdef __CUDA_ARCH__
  return *static_cast<const T*>(from);
#else
  T value;
  __builtin_memcpy(&value, from, sizeof(T));
  return value;
#endif
}
template <class T>
DIT_SHARED void store(void* to, const T& value) {
#ifdef __CUDA_ARCH__
  *static_cast<T*>(to) = value;
#else
  __builtin_memcpy(to, &value, sizeof(T));
#endif
}

/// Copies a unit of global memory to the room, or zeros where it is not there. It is the lane's own when its
/// copies have arrived(), all others' after that each().
DIT_SHARED void start_copy(std::byte* to, const void* from, bool is_there) {
#ifdef __CUDA_ARCH__
  const auto place = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(place), "l"(from), "r"(is_there ? 16 : 0)
               : "memory");
#else
  store(to, is_there ? load<Unit>(from) : Unit{});
#endif
}
DIT_SHARED void arrived() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

}  // namespace
}  // namespace dit
