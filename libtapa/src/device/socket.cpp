#include "device/socket.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
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

socklen_t length_of(const SocketAddress& address) {
  return address.any.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

/// Waits until a socket can be read from (POLLIN) or written to (POLLOUT); false when it is too late.
bool await(const Socket& socket, short events, SocketClock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SocketClock::now()).count();
    pollfd wanted{socket.get(), events, 0};
    const int ready = ::poll(&wanted, 1, static_cast<int>(std::max<decltype(left)>(left, 0)));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) fail("poll");
  }
}

bool must_wait() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

Socket new_socket(int family) {
  Socket made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (made.get() < 0) fail("socket");
  return made;
}

/// Short messages leave at once.
void send_without_delay(const Socket& socket) {
  const int on = 1;
  if (::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
    fail("setsockopt TCP_NODELAY");
}

}  // namespace

std::string text_of(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  const bool is_v4 = address.any.sa_family == AF_INET;
  const void* const bytes = is_v4 ? static_cast<const void*>(&address.v4.sin_addr)
                                  : static_cast<const void*>(&address.v6.sin6_addr);
  if (::inet_ntop(address.any.sa_family, bytes, text, sizeof(text)) == nullptr) return "?";
  return text;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Socket listen_anywhere(int family, std::uint16_t& port) {
  Socket made = new_socket(family);
  SocketAddress address{};
  address.any.sa_family = static_cast<sa_family_t>(family);
  if (::bind(made.get(), &address.any, length_of(address)) != 0) fail("bind");
  if (::listen(made.get(), SOMAXCONN) != 0) fail("listen");
  socklen_t length = sizeof(address);
  if (::getsockname(made.get(), &address.any, &length) != 0) fail("getsockname");
  port = ntohs(family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
  return made;
}

Socket connect_to(const SocketAddress& address, SocketClock::time_point until, std::string& why) {
  Socket made = new_socket(address.any.sa_family);
  if (::connect(made.get(), &address.any, length_of(address)) != 0) {
    int error = errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof(error);
      error = ETIMEDOUT;
      if (await(made, POLLOUT, until) &&
          ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        fail("getsockopt SO_ERROR");
      }
    }
    if (error != 0) {
      why = text_of(address) + ": " + std::strerror(error);
      return {};
    }
  }
  send_without_delay(made);
  return made;
}

Socket accept_one(const Socket& listening, SocketClock::time_point until) {
  for (;;) {
    const int descriptor = ::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      Socket made(descriptor);
      send_without_delay(made);
      return made;
    }
    // One that was given up by its other end while it waited here is none.
    if (!must_wait() && errno != ECONNABORTED) fail("accept");
    if (!await(listening, POLLIN, until)) return {};
  }
}

bool read_all(const Socket& socket, void* memory, std::size_t bytes, SocketClock::time_point until) {
  auto* at = static_cast<char*>(memory);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket.get(), at, bytes, 0);
    if (got > 0) {
      at += got;
      bytes -= static_cast<std::size_t>(got);
    } else if (got == 0 || !must_wait() || !await(socket, POLLIN, until)) {
      return false;
    }
  }
  return true;
}

bool write_all(const Socket& socket, const void* memory, std::size_t bytes, SocketClock::time_point until) {
  const auto* at = static_cast<const char*>(memory);
  while (bytes > 0) {
    const ssize_t put = ::send(socket.get(), at, bytes, MSG_NOSIGNAL);
    if (put > 0) {
      at += put;
      bytes -= static_cast<std::size_t>(put);
    } else if (put == 0 || !must_wait() || !await(socket, POLLOUT, until)) {
      return false;
    }
  }
  return true;
}

}  // namespace tapa::device
