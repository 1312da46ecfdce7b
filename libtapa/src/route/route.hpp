/// @file
/// Which way a call goes.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "autotune/autotuner.hpp"
#include "comm/comm_state.hpp"

namespace tapa {

enum class Carrier : std::uint8_t {
  mpi,     ///< MPI's own all-to-all
  memory,  ///< at once, through memory that all ranks share
  device,  ///< the device engine
  plan,    ///< in the order of calls: messages of a plan, memory, or MPI, as it is chosen when its turn comes
};

/// What MPI gets a call as.
enum class HandOver : std::uint8_t { as_made, bytes, staged };

/// Why a call is MPI's. Static texts: the program's error handler may jump out of the call.
/// Told apart by their addresses: arrays, as pointers to literals are others in each object file.
namespace reasons {
inline constexpr char foreign[] = "intercommunicator, or outside of MPI_Init and MPI_Finalize";
inline constexpr char wrong[] = "arguments are wrong";
inline constexpr char alone[] = "communicator of one rank";
inline constexpr char not_ready[] = "communicator not set up";
inline constexpr char device[] = "buffers may be in GPU memory";
inline constexpr char no_progress[] = "nothing would make it progress";
inline constexpr char proven[] = "no plan is known to be faster";
inline constexpr char asked[] = "TAPA_PLAN=mpi";
inline constexpr char tags[] = "no tags are left";
inline constexpr char disabled[] = "TAPA_ENABLE=0";
inline constexpr char tried[] = "tried in comparison";
inline constexpr char fastest[] = "MPI is the fastest";
inline constexpr char memory[] = "no memory for packed blocks";
}  // namespace reasons

/// The blocks of a call when all have the same size.
struct Uniform {
  std::size_t bytes = 0;    ///< of a block; 0: there is no exchange
  bool dense = false;       ///< those of each side lie one after the other:
  MPI_Aint send_first = 0;  ///< from the buffer on that is sent from, the receive buffer when in place
  MPI_Aint recv_first = 0;  ///< from the receive buffer on
};

/// Nothing here needs a destructor: MPI's error handler may not return.
struct Route {
  Carrier carrier = Carrier::mpi;
  const char* reason = nullptr;      ///< mpi: why
  CommState* state = nullptr;        ///< set up; lives until a communicator is freed. Null: there is none
  HandOver how = HandOver::as_made;  ///< mpi
  ShmBuffers* buffers = nullptr;     ///< memory: claimed
  Uniform blocks{};                  ///< memory: `bytes` is 0 where sizes differ

  // What is told of the call when it has ended.
  bool chosen = false;              ///< mpi: the ranks have chosen it, among what they could do themselves
  bool noted = false;               ///< it matters how long it takes
  std::optional<ProbeKey> tried{};  ///< it is a probe of this competition
  std::uint64_t sent = 0;           ///< bytes, where it is noted
  std::uint64_t stands_for = 1;     ///< memory: calls for which its time counts in the report
  bool uniform = false;
  std::size_t bytes = 0;  ///< of a (mean) block
};

/// That of a call which begins when its turn comes, and of one that is MPI's.
[[nodiscard]] inline Route in_order(CommState& state) {
  return {.carrier = Carrier::plan, .state = &state};
}
[[nodiscard]] inline Route left_to_mpi(const char* reason, CommState* state = nullptr) {
  return {.reason = reason, .state = state};
}

}  // namespace tapa
