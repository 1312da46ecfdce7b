/// @file
/// Reading and writing the memory of another process of the same node: one copy, no cooperation of its owner.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tapa {

/// Copies to.size() bytes from `address` in process `pid`. False with errno set when the kernel refuses:
/// another user, no right to trace, a system call filter, no such memory.
[[nodiscard]] bool read_process(pid_t pid, std::uint64_t address, std::span<std::byte> to);
/// The same to `address`.
[[nodiscard]] bool write_process(pid_t pid, std::uint64_t address, std::span<const std::byte> from);

}  // namespace tapa
