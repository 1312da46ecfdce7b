/// @file
/// How threads find out that what they remember of a communicator or datatype is of one that was freed: its
/// handle may come again for another one.
#pragma once

#include <atomic>
#include <cstdint>

namespace tapa {

/// Counts communicators that were freed, of those that the library has seen, communicators that were set up,
/// and options that were set: what is remembered of communicators goes by them too.
inline std::atomic<std::uint64_t> freed_communicators{0};

/// Counts derived datatypes that were freed, of those that the library has seen. Programs may make and free
/// one for each call: what is remembered of communicators does not go by them.
inline std::atomic<std::uint64_t> freed_types{0};

/// Both, when something was remembered.
struct FreedHandles {
  std::uint64_t communicators = 0;
  std::uint64_t types = 0;

  [[nodiscard]] static FreedHandles now() {
    return {freed_communicators.load(std::memory_order_acquire), freed_types.load(std::memory_order_acquire)};
  }
  /// Whether what was remembered then still holds. `permanent`: its datatypes are MPI's own, never freed.
  [[nodiscard]] bool hold(bool permanent) const {
    return communicators == freed_communicators.load(std::memory_order_acquire) &&
           (permanent || types == freed_types.load(std::memory_order_acquire));
  }
};

}  // namespace tapa
