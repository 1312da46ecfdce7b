/// @file
/// What the report counts of calls beside their rows: times, compared between ranks, and who gets bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/comm_state.hpp"
#include "run/arguments.hpp"

namespace tapa {

/// The blocking call that the report has numbered last has ended, in which every rank waited for all others.
/// `parts`: of `state`. Not where ranks agree on the way of GPU buffers first: they wait there.
void note_time(CommState& state, const CommParts& parts, std::uint64_t bytes, double seconds) noexcept;
/// The same where blocks may differ; not kept where a rank received nothing from another. Asks MPI about
/// types: not while the parts are locked.
void note_time(CommState& state, const Arguments& arguments, double seconds) noexcept;

/// Bytes of the blocks of a side.
[[nodiscard]] std::size_t bytes_of(const Arguments& arguments, const Side& side, int peers);

/// Where blocks go whose sizes differ. The first asks MPI about types, too.
void note_traffic(const Arguments& arguments, int ranks, CommState& state) noexcept;
void note_traffic(const std::vector<Block>& sent, Traffic& traffic) noexcept;
void note_traffic(std::span<const SparseMessage> sent, Traffic& traffic) noexcept;

/// Of the device engine's last call. `uniform`: see there.
void note_traffic(const DeviceCalls& calls, bool uniform, Traffic& traffic) noexcept;

/// Keeps what a communicator that ends has counted. `rank`: this process's in it.
void keep_counts(const Membership& membership, int rank, const CommParts& parts) noexcept;
/// Bytes that this process has sent, by rank of its world.
struct SentBytes {
  std::vector<double> all;
  std::vector<GpuBytes> of_gpus;

  void resize(std::size_t ranks) {
    all.resize(ranks);
    of_gpus.resize(ranks);
  }
};
/// To each of so many ranks.
[[nodiscard]] SentBytes traffic_to(int ranks);

}  // namespace tapa
