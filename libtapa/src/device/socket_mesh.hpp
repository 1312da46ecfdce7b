/// @file
/// TCP connections between ranks of different nodes, made once. Strangers who find the port are turned away:
/// both ends show what only ranks know.
#pragma once

#include <string>
#include <vector>

#include "device/agreement.hpp"
#include "device/socket.hpp"

namespace tapa::device {

struct PeerSocket {
  int peer;  ///< rank in the communicator
  Socket socket;
};

struct SocketMesh {
  std::vector<std::vector<PeerSocket>> by_channel;  ///< a connection to each peer; they do not block
  std::string interfaces;                           ///< of this rank, in words: "nic0 10.0.0.1"
};

/// Collective over all ranks of the agreement. `peers`: ranks of other nodes, to whom this one is a peer,
/// too. Throws DeviceError, on all ranks alike.
[[nodiscard]] SocketMesh connect_peers(const Agreement& agreement, const std::vector<int>& peers,
                                       int channels);

}  // namespace tapa::device
