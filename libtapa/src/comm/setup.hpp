/// @file
/// What a communicator's ranks tell each other in its set-up: all else is known to their world.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/device_way.hpp"
#include "run/joint_steps.hpp"
#include "transport/message_space.hpp"
#include "world/node_arena.hpp"
#include "world/world.hpp"

namespace tapa {

/// A communicator's place in its world. Its rank 0 has taken the number; each rank leaves the region.
struct Membership {
  std::shared_ptr<World> world;
  std::vector<int> in_world;  ///< its ranks there
  std::vector<int> on_node;   ///< their numbers on this rank's node; -1: on another, or nodes have no memory
  bool one_node = false;      ///< all share one
  std::optional<unsigned> context;  ///< its number
  ArenaRegion region;               ///< memory for exchanges, where all share a node
  DeviceFacts device;               ///< what decides the way of buffers in GPU memory
  int gpu_rank = -1;                ///< the first whose process uses a GPU, so may have buffers in its memory
  std::string results;              ///< what earlier runs have found, as far as rank 0 knows (TAPA_CACHE)
  MPI_Comm device_comm = MPI_COMM_NULL;  ///< for DeviceCalls, where the device engine can serve these ranks

  std::uint32_t serial = 0;  ///< of those that its rank 0 has set up as rank 0

  /// A number that no other communicator of the job has; alike on its ranks.
  [[nodiscard]] std::uint64_t id() const {
    return static_cast<std::uint64_t>(in_world.front()) << 32 | serial;
  }
  [[nodiscard]] MessageSpace space() const;
};

/// Collective over `user`, and may synchronise. In a linked program it makes their world where there is none,
/// and `steps` begin, which may fail on one rank alone. `in_world`: see CommState::set_up(). Frees all when
/// it throws: SetupError on all ranks, FailedElsewhere, CallError where MPI fails.
[[nodiscard]] Membership join_world(MPI_Comm user, std::vector<int> in_world, JointSteps& steps);

/// For a rank that cannot even begin that, in such a program: the others learn it.
void refuse_to_join(MPI_Comm user);

/// The same for MPI_COMM_WORLD where its world has just been made: without a word.
[[nodiscard]] Membership join_as_whole(const std::shared_ptr<World>& world);

/// Asks whether ranks use a GPU by now, and notes it. Collective over `user`, whose membership that is.
void ask_for_gpus(MPI_Comm user, Membership& membership);

/// Gives back what a membership has of its world. `rounds`: that the region's exchanges have used. Local.
void leave_world(Membership& membership, int rank, std::uint64_t rounds);

/// Why a communicator is MPI's on which this rank's process uses a GPU.
[[nodiscard]] std::string gpu_message(int rank, const std::string& why);

}  // namespace tapa
