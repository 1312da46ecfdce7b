/// @file
/// What reports and explanations say of calls, beside the report's rows: names, times, who gets bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// The blocking call that the report has numbered last has ended, in which every rank waited for all others.
/// `parts`: of `state`. Not where ranks agree on the way of GPU buffers first: they wait there.
void note_time(CommState& state, const CommParts& parts, std::uint64_t bytes, double seconds) noexcept;
/// The same where blocks may differ, and a rank may have received nothing. Without lock: asks MPI about
/// types.
void note_time(CommState& state, const Arguments& arguments, double seconds) noexcept;

/// Bytes of the blocks of a side.
[[nodiscard]] std::size_t bytes_of(const Arguments& arguments, const Side& side, int peers);

/// Where blocks go whose sizes differ. The first asks MPI about types, too.
void note_traffic(const Arguments& arguments, int ranks, CommState& state) noexcept;
void note_traffic(const std::vector<Block>& sent, Traffic& traffic) noexcept;
void note_traffic(std::span<const SparseMessage> sent, Traffic& traffic) noexcept;

/// Of the device engine's last call. `uniform`: see there.
void note_traffic(const DeviceCalls& calls, bool uniform, Traffic& traffic) noexcept;

/// Counts a call in the report that `plan` has carried out.
void note_call(CommState& state, const char* function, std::string_view plan, std::uint64_t sent,
               double seconds);

/// Keeps what a communicator that ends has counted. `rank`: this process's in it.
void keep_counts(const Membership& membership, int rank, const CommParts& parts) noexcept;
/// What this process has sent, to each of so many ranks of its world.
[[nodiscard]] Traffic traffic_to(int ranks);

/// A function's name as this program calls it.
[[nodiscard]] std::string name_here(std::string_view function);
/// The name that the program gave a communicator, or its ranks; "" where nothing is to be reported. Local.
[[nodiscard]] std::string name_for_report(MPI_Comm comm);

/// Why a plan is taken that is tried to learn its time.
inline constexpr const char* kProbed = "being probed";
/// The line of TAPA_EXPLAIN for a plan, whose first run took so long.
[[nodiscard]] std::string explanation(const PlanEntry& entry, const char* function, int ranks,
                                      double seconds);

}  // namespace tapa
