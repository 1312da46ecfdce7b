/// @file
/// TCP sockets: a handle, and how two processes find each other. Knows nothing of ranks. All functions throw
/// DeviceError.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace tapa::device {

/// An IPv4 or IPv6 address, with a port.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};
[[nodiscard]] std::string text_of(const SocketAddress& address);

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() { close(); }

  [[nodiscard]] int get() const { return descriptor_; }
  void close();

 private:
  int descriptor_ = -1;
};

using SocketClock = std::chrono::steady_clock;

/// Takes connections at any address of a family, AF_INET or AF_INET6. `port`: its port.
[[nodiscard]] Socket listen_anywhere(int family, std::uint16_t& port);
/// Without a socket when nobody answers at that address in time, and `why` says so.
[[nodiscard]] Socket connect_to(const SocketAddress& address, SocketClock::time_point until,
                                std::string& why);
/// The next connection; without a socket when none comes in time.
[[nodiscard]] Socket accept_one(const Socket& listening, SocketClock::time_point until);

/// All `bytes` in time, or false. The socket does not block.
[[nodiscard]] bool read_all(const Socket& socket, void* memory, std::size_t bytes,
                            SocketClock::time_point until);
[[nodiscard]] bool write_all(const Socket& socket, const void* memory, std::size_t bytes,
                             SocketClock::time_point until);

}  // namespace tapa::device
