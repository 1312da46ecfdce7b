/// @file
/// What tests do with sockets, in time.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "device/socket.hpp"

namespace tapa::device {

/// Connections go over the loopback interface.
class OnLoopback : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TAPA_SOCKET_IFNAME", "=lo", 1); }
  void TearDown() override { ::unsetenv("TAPA_SOCKET_IFNAME"); }
};

inline std::vector<int> all_but(int rank, int size) {
  std::vector<int> others;
  for (int other = 0; other < size; ++other)
    if (other != rank) others.push_back(other);
  return others;
}

inline std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(20);
}

/// A connection that is made, or none.
inline Descriptor connected_to(const SocketAddress& address) {
  std::string why;
  Descriptor socket = begin_connect(address, why);
  pollfd ready{socket.get(), POLLOUT, 0};
  if (!socket.is_open() || ::poll(&ready, 1, 20'000) <= 0 || !end_connect(socket).empty()) return {};
  return socket;
}

inline bool read_all(const Descriptor& socket, void* memory, std::size_t bytes) {
  std::size_t got = 0;
  for (const auto late = soon(); got < bytes && std::chrono::steady_clock::now() < late;) {
    pollfd ready{socket.get(), POLLIN, 0};
    ::poll(&ready, 1, 100);
    if (!read_on(socket, memory, bytes, got)) return false;
  }
  return got == bytes;
}

}  // namespace tapa::device
