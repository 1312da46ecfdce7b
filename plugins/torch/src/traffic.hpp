/// How many bytes an exact transfer sends to other ranks.
#pragma once

#include <array>

#include "group.hpp"
#include "transfers.hpp"

namespace dit::operators {

/// Of this rank, for each dit_transfer_kind, by the level at which the peer is reached.
[[nodiscard]] std::array<LevelBytes, kTransfers> bytes_of_exact(const Group& group,
                                                                const Transfers& transfers,
                                                                std::size_t element_bytes);

}  // namespace dit::operators
