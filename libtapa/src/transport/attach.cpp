#include "transport/attach.hpp"

#include <sys/uio.h>

#include <cerrno>

namespace tapa {

bool read_process(pid_t pid, std::uint64_t address, std::span<std::byte> to) {
  while (!to.empty()) {
    const iovec here{to.data(), to.size()};
    const iovec there{reinterpret_cast<void*>(address), to.size()};  // NOLINT: an address elsewhere
    const ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    address += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

bool write_process(pid_t pid, std::uint64_t address, std::span<const std::byte> from) {
  while (!from.empty()) {
    const iovec here{const_cast<std::byte*>(from.data()), from.size()};
    const iovec there{reinterpret_cast<void*>(address), from.size()};  // NOLINT: an address elsewhere
    const ssize_t put = process_vm_writev(pid, &here, 1, &there, 1, 0);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    address += static_cast<std::uint64_t>(put);
    from = from.subspan(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace tapa
