/// @file
/// One NIC for each rank. Open MPI's TCP transport spreads a rank's large messages over all NICs of a node
/// without knowing what the other ranks do; ranks that keep to one NIC each, in turn, load the NICs equally
/// and are faster.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "text.hpp"

namespace tapa::preload {

/// An IPv4 address of an interface.
struct Nic {
  std::string_view name;
  std::uint32_t address = 0;  ///< 10.99.0.1 is 0x0a630001
  std::uint32_t netmask = 0;  ///< of /24: 0xffffff00
};

/// What the decision depends on.
struct RailSituation {
  std::string_view option;        ///< TAPA_NICS; its first word may be each or all
  std::string_view include;       ///< OMPI_MCA_btl_tcp_if_include: names or networks, separated by commas
  std::optional<int> local_rank;  ///< OMPI_COMM_WORLD_LOCAL_RANK
  std::span<const Nic> up;        ///< interfaces that are up and have an IPv4 address, without loopback
};

/// What to do and why.
struct RailDecision {
  std::string_view
      include;  ///< new value of OMPI_MCA_btl_tcp_if_include, a part of the old; empty: nothing to change
  Line why;     ///< one sentence
};

/// Local rank i gets entry i mod n of the list that the user gave; entries of which nothing is up here are
/// passed over. Without a list nothing is changed: which NICs reach the other nodes is not known here, and a
/// rank on one that does not would hang. Nor is anything changed when the NICs of the list are in networks of
/// their own: two ranks that keep to NICs of different networks may not reach each other; with TAPA_NICS=each
/// the user says that they do.
///
/// Each node decides for itself, and they need not decide alike: a rank that is not pinned has all NICs, so
/// it reaches whatever one that is pinned reaches; and on two nodes that both pin, each to NICs of one
/// network, any NIC stands for the others. Pure.
[[nodiscard]] RailDecision decide_rail(const RailSituation& situation);

/// Reads the situation of this process and acts on the decision. To be called before MPI is initialized.
void pin_to_rail();

}  // namespace tapa::preload
