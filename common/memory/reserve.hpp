/// @file
/// Memory set aside for the small pieces that a rank needs on its way to the others: they would wait for one
/// that turns back.
#pragma once

#include <cstddef>
#include <memory>

namespace memory {

/// Sets some megabytes of address space aside, unless they are. From then on operator new of the library that
/// this is part of, or of the program, takes them before it fails; not where the program has a handler of its
/// own for that. Cheap: to be called wherever a call begins.
void keep_reserve() noexcept;

/// Uninitialised, and not of the reserve if it is long: who packs blocks has another way where there is no
/// memory for them, and that needs some, too. Throws std::bad_alloc.
[[nodiscard]] std::unique_ptr<std::byte[]> for_blocks(std::size_t bytes);

}  // namespace memory
