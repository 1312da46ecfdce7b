/// @file
/// One NIC for each rank. Open MPI's TCP transport spreads a rank's large messages over all NICs of a node
/// without knowing what the other ranks do; ranks that keep to one NIC each, in turn, load the NICs equally
/// and are faster.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tapa::preload {

/// What the decision depends on.
struct RailSituation {
  std::optional<std::string> option;  ///< TAPA_RAILS
  std::optional<std::string>
      include;                    ///< OMPI_MCA_btl_tcp_if_include: names or networks, separated by commas
  std::optional<int> local_rank;  ///< OMPI_COMM_WORLD_LOCAL_RANK
  std::vector<std::string> up;    ///< interfaces that are up and have an IPv4 address, without loopback
};

/// What to do and why.
struct RailDecision {
  std::optional<std::string> include;  ///< new value of OMPI_MCA_btl_tcp_if_include, or nothing to change
  std::string why;                     ///< one sentence
  bool wrong_option = false;           ///< `why` is a complaint about TAPA_RAILS
};

/// Local rank i gets entry i mod n of the list that the user gave; entries that name an interface which is
/// not up here are passed over. Without a list nothing is changed: which NICs reach the other nodes is not
/// known here, and a rank on one that does not would hang. Pure.
[[nodiscard]] RailDecision decide_rail(const RailSituation& situation);

/// Reads the situation of this process and acts on the decision. To be called before MPI is initialized.
void pin_to_rail();

}  // namespace tapa::preload
