/// @file
/// The time that a node's NICs need for the bytes of an all-to-all: no algorithm can be faster. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tapa::bench {

/// NICs of each node, as given by --nic-bound or TAPA_NIC_RATE: "100mbit", "2x20mbit", "12.5gbps".
struct NicRate {
  int nics = 1;                 ///< NICs per node that share the load
  double bytes_per_second = 0;  ///< of one NIC in one direction
};

/// Parses [COUNTx]NUMBER UNIT with tc's units: bit, kbit, mbit, gbit (bits) and bps, kbps, mbps, gbps
/// (bytes), powers of 1000. Throws std::invalid_argument that quotes the text and says what was expected.
[[nodiscard]] NicRate parse_nic_rate(const std::string& text);

/// Bytes on an Ethernet with 1500-byte packets: each segment of 1448 bytes carries 66 more (Ethernet 14, IPv4
/// 20, TCP 20 with 12 of timestamps). One stream is assumed, so that this stays a lower bound for every
/// number of messages.
[[nodiscard]] double wire_bytes(double payload);

/// Seconds for the busiest node: max over nodes of max(bytes sent to, bytes received from other nodes), as
/// wire_bytes, over the rate of all its NICs. `bytes(src, dst)` is the size of a block; node_of[rank] a
/// node's number.
[[nodiscard]] double nic_bound_seconds(const std::vector<int>& node_of, const NicRate& rate,
                                       const std::function<std::size_t(int, int)>& bytes);

}  // namespace tapa::bench
