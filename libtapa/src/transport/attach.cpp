#include "transport/attach.hpp"

#include <sys/uio.h>

#include <cerrno>

namespace tapa {

namespace {

/// All of `here`, by `move`: process_vm_readv or process_vm_writev.
template <typename Move>
bool move_all(const Move& move, pid_t pid, std::uint64_t address, std::span<std::byte> here) {
  while (!here.empty()) {
    const iovec own{here.data(), here.size()};
    const iovec there{reinterpret_cast<void*>(address), here.size()};  // NOLINT: an address elsewhere
    const ssize_t moved = move(pid, &own, 1, &there, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    address += static_cast<std::uint64_t>(moved);
    here = here.subspan(static_cast<std::size_t>(moved));
  }
  return true;
}

}  // namespace

bool read_process(pid_t pid, std::uint64_t address, std::span<std::byte> to) {
  return move_all(process_vm_readv, pid, address, to);
}

bool write_process(pid_t pid, std::uint64_t address, std::span<const std::byte> from) {
  return move_all(process_vm_writev, pid, address, {const_cast<std::byte*>(from.data()), from.size()});
}

}  // namespace tapa
