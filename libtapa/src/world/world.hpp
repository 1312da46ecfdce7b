/// @file
/// What ranks agree on once: who shares a node and its memory, options, a communicator for messages. Under
/// the drop-in for MPI_COMM_WORLD inside MPI_Init, in a linked program for the ranks of its first call.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/error.hpp"
#include "run/joint_steps.hpp"
#include "run/world.hpp"
#include "transport/shm_node.hpp"
#include "world/hello.hpp"
#include "world/node_arena.hpp"
#include "world/process_options.hpp"

namespace tapa {

/// Why ranks cannot work together; all of them know it alike.
class SetupError : public CallError {
 public:
  SetupError(int code, const std::string& message) : CallError(code, message, Seen::everywhere) {}
};

class World {
 public:
  /// Collective over `of`, among `steps`. Throws SetupError on all ranks alike, CallError where MPI fails.
  static std::shared_ptr<World> make(MPI_Comm of, const JointSteps& steps);
  ~World() { release(); }

  /// That of all ranks of MPI_COMM_WORLD, or null; made by one of the calls of make().
  static std::shared_ptr<World> of_process();
  static void set_of_process(std::shared_ptr<World> world);

  /// Frees its communicators: nothing may be under way. MPI ends.
  void release();

  // What its ranks know: make() says it.
  const int rank;
  const int size;
  MPI_Comm comm = MPI_COMM_NULL;     ///< carries messages of all communicators, each with tags of its own
  int nodes = 0;                     ///< ranks of a node can map each other's files
  std::vector<int> mates;            ///< the ranks of this rank's node, ascending
  std::shared_ptr<NodeArena> arena;  ///< the node's memory; null on all ranks where some cannot have it
  std::unique_ptr<ShmNode> shm;      ///< messages in it; null where there is none
  bool attaches = false;             ///< the kernel lets the ranks of each node read each other's memory
  bool crowded = false;              ///< ranks of this rank's host outnumber its processors
  bool sees_gpus = false;            ///< some rank's host has GPUs, and buffers may be in their memory
  bool has_progress = false;         ///< nonblocking operations advance on every rank whatever it waits for
  SharedOptions shared;              ///< what rank 0 has
  std::vector<std::string> records;  ///< each rank's place, for merge_records(); empty where not asked for

  [[nodiscard]] const Hello& hello(int of) const { return hellos_[static_cast<std::size_t>(of)]; }
  /// The number of a rank's node.
  [[nodiscard]] int node_of(int of) const { return node_[static_cast<std::size_t>(of)]; }
  /// A rank's number among the mates, or -1, and a mate's process.
  [[nodiscard]] int number_of(int of) const { return number_[static_cast<std::size_t>(of)]; }
  [[nodiscard]] pid_t process_of(int mate) const { return pids_[static_cast<std::size_t>(number_of(mate))]; }
  /// How near a mate is: 0 shares the last cache, 1 the package, 2 neither, as far as both are bound.
  [[nodiscard]] int distance_to(int mate) const;
  /// The ranks of a communicator as ranks of this world, or MPI_UNDEFINED. Local. Throws CallError.
  [[nodiscard]] std::vector<int> ranks_of(MPI_Comm other) const { return ranks_in(comm, other); }

  /// Of these ranks' tags, a share for each of so many communicators.
  [[nodiscard]] int tags_of_context() const { return tag_limit_ / static_cast<int>(contexts_); }
  /// A number that no other living communicator has, for its rank 0; nothing when none is left. Thread-safe.
  [[nodiscard]] std::optional<unsigned> take_context();
  void give_context(unsigned context);

 private:
  explicit World(MPI_Comm of) : rank(rank_in(of)), size(size_of(of)) {}
  void find_mates();
  [[nodiscard]] bool open_arena(const std::optional<ShmSegment>& file);
  void reserve();
  void agree(bool shares, MPI_Comm of, const JointSteps& steps);
  void make_comms(MPI_Comm of, const JointSteps& steps);
  void join_rings();
  void count_cores();
  void describe_places(const JointSteps& steps);

  std::vector<Hello> hellos_;
  std::vector<int> node_;
  std::vector<int> number_;
  std::vector<pid_t> pids_;  // of the mates
  int tag_limit_ = 32767;
  unsigned contexts_ = 1;
  // Where there is no arena.
  std::array<std::atomic<std::uint64_t>, ArenaLayout::kContexts / 64> own_words_{};
  Contexts own_contexts_{own_words_.data()};
};

}  // namespace tapa
