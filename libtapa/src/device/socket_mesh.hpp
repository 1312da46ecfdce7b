/// @file
/// TCP connections between ranks of different nodes, made once, at addresses of the chosen interfaces alone.
/// Strangers who find the port are turned away.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "device/agreement.hpp"
#include "device/socket_handshake.hpp"

namespace tapa::device {

struct PeerSocket {
  int peer;  ///< rank in the communicator
  Descriptor socket;
};

/// How a rank can be reached, as ranks tell each other. Plain data.
struct SocketContact {
  Number token;  ///< never sent over a connection
  std::array<SocketAddress, 8> addresses;
  int count;
};

struct SocketMesh {
  std::vector<std::vector<PeerSocket>> by_channel;  ///< a connection to each peer; they do not block
  std::string interfaces;                           ///< of this rank, in words: "nic0 10.0.0.1"
};

/// Collective over all ranks of the agreement. `peers`: ranks of other nodes, to whom this one is a peer,
/// too. `timeout`: for all connections; a quarter of it for each that somebody tries. Throws DeviceError, on
/// all ranks alike.
[[nodiscard]] SocketMesh connect_peers(const Agreement& agreement, const std::vector<int>& peers,
                                       int channels,
                                       std::chrono::milliseconds timeout = std::chrono::seconds(20));

}  // namespace tapa::device
