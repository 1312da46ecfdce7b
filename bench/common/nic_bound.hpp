/// @file
/// The time that a node's NICs need for the bytes of an all-to-all: no algorithm can be faster. Pure but for
/// packet_of_nic, which reads a file.
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
  int packet = 1500;            ///< largest IP packet (MTU), bytes
};

/// Parses [COUNTx]RATE or [NAME=]RATE,[NAME=]RATE... (rates are added up: one NIC). RATE is a number and one
/// of tc's units: bit, kbit, mbit, gbit (bits) and bps, kbps, mbps, gbps (bytes), powers of 1000. Throws
/// std::invalid_argument that quotes the text and says what was expected.
[[nodiscard]] NicRate parse_nic_rate(const std::string& text);

/// Number of NICs in Open MPI's btl_tcp_if_include ("nic0,nic1"); 1 when it is null, empty, an exclusion or a
/// network.
[[nodiscard]] int count_nics(const char* interfaces);

/// The MTU that the system states for the first of these NICs ("nic0,nic1"); 1500 when it states none.
[[nodiscard]] int packet_of_nic(const char* interfaces);

/// Payload of a full packet: what is left of it beside headers of IPv4 (20) and TCP (20 with 12 of
/// timestamps); on an Ethernet it takes 66 bytes more (another 14).
[[nodiscard]] int segment_bytes(int packet);

/// Bytes on an Ethernet: each segment carries 66 more. One stream is assumed, so that this stays a lower
/// bound for every number of messages.
[[nodiscard]] double wire_bytes(double payload, int packet = 1500);

/// Seconds for the busiest node: max over nodes of max(bytes sent to, bytes received from other nodes), as
/// wire_bytes, over the rate of all its NICs (rate.nics > 0). `bytes(src, dst)` is the size of a block;
/// node_of[rank] a node's number.
[[nodiscard]] double nic_bound_seconds(const std::vector<int>& node_of, const NicRate& rate,
                                       const std::function<std::size_t(int, int)>& bytes);

}  // namespace tapa::bench
