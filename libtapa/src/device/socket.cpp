#include "device/socket.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "device/device_error.hpp"

namespace tapa::device {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, what + ": " + std::strerror(errno));
}

Descriptor new_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// Short messages leave at once; a machine that is gone is noticed within two minutes, and what lies between
/// lets idle connections live.
void prepare(const Descriptor& socket) {
  const auto set = [&](int level, int option, int value) {
    if (::setsockopt(socket.get(), level, option, &value, sizeof(value)) != 0) fail("setsockopt");
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 120'000);
}

Endpoint endpoint_of(const SocketAddress& address) {
  Endpoint made{};
  made.family = address.any.sa_family;
  if (made.family != AF_INET && made.family != AF_INET6) return {};
  made.port = made.family == AF_INET ? address.v4.sin_port : address.v6.sin6_port;
  std::ranges::copy(host_of(address), made.host.begin());
  return made;
}

}  // namespace

std::span<const std::uint8_t> host_of(const SocketAddress& address) {
  if (address.any.sa_family == AF_INET)
    return {reinterpret_cast<const std::uint8_t*>(&address.v4.sin_addr), sizeof(in_addr)};
  return {reinterpret_cast<const std::uint8_t*>(&address.v6.sin6_addr), sizeof(in6_addr)};
}

std::string text_of(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const bool made =
      ::inet_ntop(address.any.sa_family, host_of(address).data(), text, sizeof(text)) != nullptr;
  return made ? text : "?";
}

bool same_host(const SocketAddress& a, const SocketAddress& b) {
  return a.any.sa_family == b.any.sa_family && std::ranges::equal(host_of(a), host_of(b));
}

socklen_t length_of(const sockaddr& address) {
  return address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

Endpoint own_end(const Descriptor& socket) {
  SocketAddress address{};
  socklen_t length = sizeof(address);
  return ::getsockname(socket.get(), &address.any, &length) == 0 ? endpoint_of(address) : Endpoint{};
}

Endpoint other_end(const Descriptor& socket) {
  SocketAddress address{};
  socklen_t length = sizeof(address);
  return ::getpeername(socket.get(), &address.any, &length) == 0 ? endpoint_of(address) : Endpoint{};
}

bool must_wait() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

Descriptor listen_at(const SocketAddress& host, SocketAddress& at) {
  Descriptor made = new_socket(host.any.sa_family);
  if (!made.is_open()) fail("socket");
  at = host;
  (host.any.sa_family == AF_INET ? at.v4.sin_port : at.v6.sin6_port) = 0;
  if (::bind(made.get(), &at.any, length_of(at.any)) != 0) {
    if (errno == EADDRNOTAVAIL) return {};
    fail("bind");
  }
  if (::listen(made.get(), SOMAXCONN) != 0) fail("listen");
  socklen_t length = sizeof(at);
  if (::getsockname(made.get(), &at.any, &length) != 0) fail("getsockname");
  return made;
}

Descriptor begin_connect(const SocketAddress& address, std::string& why) {
  Descriptor made = new_socket(address.any.sa_family);
  if (!made.is_open()) fail("socket");
  if (::connect(made.get(), &address.any, length_of(address.any)) == 0 || errno == EINPROGRESS) return made;
  why = std::strerror(errno);
  return {};
}

std::string end_connect(const Descriptor& socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return std::strerror(error);
  try {
    prepare(socket);
  } catch (const DeviceError& failed) {
    return failed.what();
  }
  return "";
}

Descriptor accept_one(const Descriptor& listening) {
  Descriptor made(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (made.is_open()) {
    prepare(made);
  } else if (!must_wait() && errno != ECONNABORTED && errno != EMFILE && errno != ENFILE) {
    fail("accept");
  }
  return made;
}

bool read_on(const Descriptor& socket, void* memory, std::size_t bytes, std::size_t& got) {
  while (got < bytes) {
    const ssize_t count = ::recv(socket.get(), static_cast<char*>(memory) + got, bytes - got, 0);
    if (count <= 0) return count < 0 && must_wait();
    got += static_cast<std::size_t>(count);
  }
  return true;
}

bool write_few(const Descriptor& socket, const void* memory, std::size_t bytes) {
  return ::send(socket.get(), memory, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

}  // namespace tapa::device
