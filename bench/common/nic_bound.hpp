/// @file
/// The time that a node's NICs need for the bytes of an all-to-all: no algorithm can be faster. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tapa::bench {

/// NICs of each node, as given by --nic-bound or TAPA_NIC_RATE: "100mbit", "2x20mbit",
/// "nic0=100mbit,nic1=20mbit".
struct NicRate {
  int nics = 0;                 ///< NICs per node that share the load, 0 = not said
  double bytes_per_second = 0;  ///< of one NIC in one direction
};

/// Parses [COUNTx]RATE or [NAME=]RATE,[NAME=]RATE... (rates are added up: one NIC). RATE is a number and one
/// of tc's units: bit, kbit, mbit, gbit (bits) and bps, kbps, mbps, gbps (bytes), powers of 1000. Throws
/// std::invalid_argument that quotes the text and says what was expected.
[[nodiscard]] NicRate parse_nic_rate(const std::string& text);

/// Number of NICs in Open MPI's btl_tcp_if_include ("nic0,nic1"); 1 when it is null, empty, an exclusion or a
/// network.
[[nodiscard]] int count_nics(const char* interfaces);

/// Bytes on an Ethernet with 1500-byte packets: each segment of 1448 bytes carries 66 more (Ethernet 14, IPv4
/// 20, TCP 20 with 12 of timestamps). One stream is assumed, so that this stays a lower bound for every
/// number of messages.
[[nodiscard]] double wire_bytes(double payload);

/// Seconds for the busiest node: max over nodes of max(bytes sent to, bytes received from other nodes), as
/// wire_bytes, over the rate of all its NICs (rate.nics > 0). `bytes(src, dst)` is the size of a block;
/// node_of[rank] a node's number.
[[nodiscard]] double nic_bound_seconds(const std::vector<int>& node_of, const NicRate& rate,
                                       const std::function<std::size_t(int, int)>& bytes);

}  // namespace tapa::bench
