/// @file
/// TAPA_Device_comm_create for callers inside the library that can send messages.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/messenger.hpp"
#include "tapa/device.h"

namespace tapa::device {

/// Messages that the caller can send between nodes, or why it cannot.
struct MessageOffer {
  std::function<std::unique_ptr<Messenger>()> make;  ///< collective; empty: none
  std::string why_not;
};

/// As TAPA_Device_comm_create; `context` is held as long as the communicator lives. `function`: the entry
/// point, for the text of an error.
int create_communicator(const char* function, int rank, int size, TAPA_Device_allgather allgather,
                        const std::shared_ptr<void>& context, const MessageOffer& offer,
                        const TAPA_Device_options* options, TAPA_Device_comm* comm) noexcept;

/// Whether the rank's GPU and this one reach each other's memory. Local.
[[nodiscard]] bool reaches(TAPA_Device_comm comm, int rank) noexcept;

/// Ends what a communicator does beside its calls, which all have ended on this rank: its threads send no
/// messages any more, so that MPI may be ended. Freeing it is all that may follow. Local.
void end_messages(TAPA_Device_comm comm) noexcept;

}  // namespace tapa::device
