/// @file
/// Which network interfaces of this machine connections between nodes use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/socket.hpp"

namespace tapa::device {

/// One address of an interface.
struct SocketInterface {
  std::string name;
  SocketAddress address{};
  SocketAddress netmask{};
  bool loopback = false;
  std::uint64_t speed = 0;  ///< Mbit/s; 0: not known, or of a virtual link, which has none
};

/// Addresses of interfaces that are up, IPv6's of a link left out. Throws DeviceError.
[[nodiscard]] std::vector<SocketInterface> list_interfaces();

/// What the environment asks for: TAPA_SOCKET_IFNAME, or else NCCL_SOCKET_IFNAME; "" when neither is set.
[[nodiscard]] std::string wanted_interfaces();

/// Those that `wanted` names, in the form of NCCL_SOCKET_IFNAME: beginnings of names, separated by commas;
/// "=" before the list: whole names; "^": all others. In the order of the list."": the fastest first; without
/// loopback, container bridges ("docker...", "virbr...") and addresses that no network gave (169.254...),
/// unless there is nothing else. Pure.
[[nodiscard]] std::vector<SocketInterface> choose_interfaces(const std::vector<SocketInterface>& all,
                                                             std::string_view wanted);

/// Whether an address can be reached without a router from an interface. Pure.
[[nodiscard]] bool on_one_network(const SocketInterface& own, const SocketAddress& other);

}  // namespace tapa::device
