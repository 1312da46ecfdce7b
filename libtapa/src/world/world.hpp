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
  /// Collective over `of`, which is not kept; its calls are among `steps`. Throws SetupError on all ranks
  /// alike, CallError when MPI itself fails.
  static std::shared_ptr<World> make(MPI_Comm of, const JointSteps& steps);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// That of all ranks of MPI_COMM_WORLD, or null; made by one of the calls of make().
  static std::shared_ptr<World> of_process();
  static void set_of_process(std::shared_ptr<World> world);

  /// Frees its communicators: nothing may be under way. MPI ends.
  void release();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// Carries messages of all communicators, each with tags of its own; MPI_ERRORS_RETURN.
  [[nodiscard]] MPI_Comm comm() const { return comm_; }
  [[nodiscard]] const Hello& hello(int rank) const { return hellos_[static_cast<std::size_t>(rank)]; }
  /// The ranks of a communicator as ranks of this world, or MPI_UNDEFINED. Local. Throws CallError.
  [[nodiscard]] std::vector<int> ranks_of(MPI_Comm comm) const;

  /// Numbers of nodes, by rank, and how many there are. Ranks of a node can map each other's files.
  [[nodiscard]] int node_of(int rank) const { return node_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int nodes() const { return nodes_; }
  /// The process of a mate.
  [[nodiscard]] pid_t process_of(int mate) const { return pids_[static_cast<std::size_t>(number_of(mate))]; }
  /// The ranks of this rank's node, ascending, and a rank's number among them, or -1.
  [[nodiscard]] const std::vector<int>& mates() const { return mates_; }
  [[nodiscard]] int number_of(int rank) const { return number_[static_cast<std::size_t>(rank)]; }

  /// The node's memory; null on all ranks of the world where some cannot have it.
  [[nodiscard]] const std::shared_ptr<NodeArena>& arena() const { return arena_; }
  /// Messages in it; null where there is none.
  [[nodiscard]] ShmNode* shm() const { return shm_.get(); }
  /// Whether the kernel lets the ranks of each node read each other's memory.
  [[nodiscard]] bool attaches() const { return attaches_; }
  /// Whether ranks of this rank's host outnumber its processors.
  [[nodiscard]] bool crowded() const { return crowded_; }
  /// How near a mate is: 0 shares the last cache, 1 the package, 2 neither, as far as both are bound.
  [[nodiscard]] int distance_to(int mate) const;

  /// Whether nonblocking operations advance on every rank whatever it waits for.
  [[nodiscard]] bool has_progress() const { return has_progress_; }
  /// Whether some rank's host has GPUs, and buffers may be in their memory.
  [[nodiscard]] bool sees_gpus() const { return sees_gpus_; }
  /// Of these ranks' tags, a share for each of so many communicators.
  [[nodiscard]] int tags_of_context() const { return tag_limit_ / static_cast<int>(contexts_); }
  /// A number that no other living communicator has, for its rank 0; nothing when none is left. Thread-safe.
  [[nodiscard]] std::optional<unsigned> take_context();
  void give_context(unsigned context);

  // What rank 0 has.
  [[nodiscard]] const std::shared_ptr<const Options>& options() const { return shared_.options; }
  [[nodiscard]] const std::string& tuning() const { return shared_.tuning; }
  [[nodiscard]] const std::string& topology() const { return shared_.topology; }
  /// How each rank describes its place, for merge_records(); empty where that was not asked for.
  [[nodiscard]] const std::vector<std::string>& records() const { return records_; }

 private:
  explicit World(MPI_Comm of);
  void find_mates();
  [[nodiscard]] bool open_arena(const std::optional<ShmSegment>& file);
  void reserve();
  void agree(bool shares, MPI_Comm of, const JointSteps& steps);
  void make_comms(MPI_Comm of, const JointSteps& steps);
  void join_rings();
  void count_cores();
  void describe_places(const JointSteps& steps);

  int rank_ = 0;
  int size_ = 0;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<Hello> hellos_;
  std::vector<int> node_;
  int nodes_ = 0;
  std::vector<int> mates_;
  std::vector<pid_t> pids_;  // of these
  std::vector<int> number_;
  std::shared_ptr<NodeArena> arena_;
  std::unique_ptr<ShmNode> shm_;
  bool attaches_ = false;
  bool crowded_ = false;
  bool sees_gpus_ = false;
  bool has_progress_ = false;
  int tag_limit_ = 32767;
  unsigned contexts_ = 1;
  // Where there is no arena.
  std::array<std::atomic<std::uint64_t>, ArenaLayout::kContexts / 64> own_words_{};
  Contexts own_contexts_{own_words_.data()};
  SharedOptions shared_;
  std::vector<std::string> records_;
};

}  // namespace tapa
