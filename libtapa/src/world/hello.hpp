/// @file
/// What each rank tells all others when a world is made, and what it can know by itself.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "run/joint_steps.hpp"
#include "transport/shm_segment.hpp"
#include "world/node_arena.hpp"

namespace tapa {

struct Hello {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t host;         ///< same number: the ranks can open each other's files
  std::uint64_t device_node;  ///< the same for buffers in GPU memory
  std::uint64_t most_bytes;   ///< of address space that this process can spare for an arena
  std::uint8_t has_progress;
  std::uint8_t has_engine;  ///< for buffers in GPU memory
  std::uint8_t mpi_takes;   ///< such buffers
  std::uint8_t one_rail;    ///< MPI was told to use one NIC
  std::uint8_t sees_gpus;   ///< its host has some, which it may begin to use later
  std::array<char, 91>
      token;  ///< how others open the file that this rank offers for its node; "": it has none

  [[nodiscard]] std::string_view token_text() const { return token.data(); }
};

/// This rank's. `file`: what it offers, or null.
[[nodiscard]] Hello own_hello(const ShmSegment* file);

/// Everybody's. Collective over `comm`; says who does not come (TAPA_TIMEOUT). Throws CallError, as `steps`.
[[nodiscard]] std::vector<Hello> gather_hellos(const Hello& own, MPI_Comm comm, const JointSteps& steps);

/// Throws CallError, on all ranks alike, unless all have this version of the library.
void check_versions(const std::vector<Hello>& hellos);

/// Where this process may run: a bit for each processor, or none when there are more than fit.
using Cores = decltype(NodeArena::Place::cores);
[[nodiscard]] Cores own_cores();
/// What follows for a process that may run on these.
[[nodiscard]] NodeArena::Place place_of(const Cores& cores);

/// Whether this libtapa has the device engine, and whether MPI says that it takes buffers in GPU memory.
[[nodiscard]] bool has_device_engine();
[[nodiscard]] bool mpi_takes_device_memory();

/// How many ranks the launcher has started on this host; 0 when it does not say.
[[nodiscard]] int ranks_started_here();

}  // namespace tapa
