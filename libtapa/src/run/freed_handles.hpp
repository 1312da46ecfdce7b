/// @file
/// How threads find out that what they remember of a communicator or datatype is of one that was freed: its
/// handle may come again for another one.
#pragma once

#include <atomic>
#include <cstdint>

namespace tapa {

/// Counts communicators and derived datatypes that were freed, of those that the library has seen,
/// communicators that were set up, and options that were set: what is remembered goes by them too.
inline std::atomic<std::uint64_t> freed_handles{0};

}  // namespace tapa
