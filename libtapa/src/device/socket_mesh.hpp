/// @file
/// TCP connections between ranks of different nodes, made once. Strangers who find the port are turned away:
/// both ends show what only ranks know.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "device/agreement.hpp"
#include "device/socket.hpp"

namespace tapa::device {

struct PeerSocket {
  int peer;  ///< rank in the communicator
  Descriptor socket;
};

/// How a rank can be reached, as ranks tell each other. Plain data.
struct SocketContact {
  std::array<std::uint8_t, 16> token;  ///< who shows it is called by a rank
  std::array<SocketAddress, 8> addresses;
  int count;
};

struct SocketMesh {
  std::vector<std::vector<PeerSocket>> by_channel;  ///< a connection to each peer; they do not block
  std::string interfaces;                           ///< of this rank, in words: "nic0 10.0.0.1"
};

/// Collective over all ranks of the agreement. `peers`: ranks of other nodes, to whom this one is a peer,
/// too. `patience`: for all connections. Throws DeviceError, on all ranks alike.
[[nodiscard]] SocketMesh connect_peers(const Agreement& agreement, const std::vector<int>& peers,
                                       int channels,
                                       std::chrono::milliseconds patience = std::chrono::seconds(20));

}  // namespace tapa::device
