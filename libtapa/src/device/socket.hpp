/// @file
/// TCP sockets that do not block: a handle, and what connecting them takes. Knows nothing of ranks. Functions
/// throw DeviceError where they do not say otherwise.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "device/descriptor.hpp"

namespace tapa::device {

/// An IPv4 or IPv6 address, with a port.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};
[[nodiscard]] std::string text_of(const SocketAddress& address);
/// The bytes without the port.
[[nodiscard]] std::span<const std::uint8_t> host_of(const SocketAddress& address);
/// Whether they are alike but for the port.
[[nodiscard]] bool same_host(const SocketAddress& a, const SocketAddress& b);
[[nodiscard]] socklen_t length_of(const sockaddr& address);
/// The same for comparisons byte by byte.
struct Endpoint {
  std::uint16_t family, port;
  std::array<std::uint8_t, 16> host;
};
/// Of a connection, as this machine sees it; all zeros when it has gone.
[[nodiscard]] Endpoint own_end(const Descriptor& socket);
[[nodiscard]] Endpoint other_end(const Descriptor& socket);
/// Whether the call that has just failed (errno) may be made again later.
[[nodiscard]] bool must_wait();

/// Takes connections at an address of this machine, which is `at` and the port that the system gives. Closed
/// where the machine no longer has the address.
[[nodiscard]] Descriptor listen_at(const SocketAddress& host, SocketAddress& at);
/// Under way, or closed, and `why` says why.
[[nodiscard]] Descriptor begin_connect(const SocketAddress& address, std::string& why);
/// How that went, once the socket can be written to: "" when it is connected. Throws nothing.
[[nodiscard]] std::string end_connect(const Descriptor& socket);
/// A connection that waits; closed when none does, or this process may open no more files now.
[[nodiscard]] Descriptor accept_one(const Descriptor& listening);

/// Reads on until `got` is `bytes`. False when the other end has closed, or by an error: nothing more comes.
/// Throws nothing.
[[nodiscard]] bool read_on(const Descriptor& socket, void* memory, std::size_t bytes, std::size_t& got);
/// Some bytes on a new connection, which takes them at once; false when it does not. Throws nothing.
[[nodiscard]] bool write_few(const Descriptor& socket, const void* memory, std::size_t bytes);

}  // namespace tapa::device
