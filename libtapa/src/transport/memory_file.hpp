/// @file
/// Anonymous files (memfd) for memory that processes share. They have no name: nothing is left behind,
/// however a process ends.
#pragma once

#include <cstddef>
#include <string>

namespace tapa {

/// Bytes of a page of this system.
[[nodiscard]] std::size_t page_bytes();

/// `bytes` rounded up to a multiple of `unit`.
[[nodiscard]] constexpr std::size_t whole_units(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// A new anonymous file of `bytes` bytes that nobody can execute; -1 when the system or a limit of the
/// process refuses it, and `why` says so. The caller closes it.
[[nodiscard]] int open_memory_file(const char* name, std::size_t bytes, std::string& why);

/// Makes the file `bytes` bytes long. A limit of the process (`ulimit -f`) is looked at first: the kernel
/// would end the process with a signal.
[[nodiscard]] bool set_file_bytes(int fd, std::size_t bytes, std::string& why);

/// Gives the memory of a range of whole pages back to the system, whoever maps it: it then reads as zeros.
void discard_file_bytes(int fd, std::size_t from, std::size_t bytes);

}  // namespace tapa
