/// @file
/// A few numbers of all ranks of a communicator combined, and the result told to all: without blocking and
/// without a collective call of MPI's, which would have to come in the same order on all ranks, among the
/// program's.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/message_space.hpp"

namespace tapa {

/// How two numbers become one.
enum class Combine : std::uint8_t { sum, max, bit_and };

/// Up a binomial tree of the ranks to rank 0, and down again. Reusable. It moves in test() alone.
class SmallReduce {
 public:
  SmallReduce() = default;
  ~SmallReduce() { give_up(); }
  SmallReduce(SmallReduce&&) = default;
  SmallReduce& operator=(SmallReduce&&) = default;

  /// Starts, among `ranks` ranks, of which this is `rank`; one that was left unfinished is given up. All of
  /// them start those of one tag in the same order, with as many numbers and the same `how`, which has an
  /// entry for each. Throws CallError.
  void start(const MessageSpace& space, int tag, int rank, int ranks, std::span<const std::uint64_t> numbers,
             std::span<const Combine> how);

  /// Whether the result is there. Throws CallError.
  [[nodiscard]] bool test();
  [[nodiscard]] std::span<const std::uint64_t> result() const { return run_->own; }

  /// Whether it is under way.
  [[nodiscard]] bool pending() const { return run_ != nullptr && run_->stage != Stage::done; }
  /// Forgets what is under way, whose tag may not be used again. Its memory stays: MPI may still use it.
  void give_up();

 private:
  enum class Stage : std::uint8_t { up, wait, down, done };
  struct Run {
    MPI_Comm comm;
    std::vector<int> in_world;
    int tag;
    int rank;
    int ranks;
    std::vector<Combine> how;
    std::vector<std::uint64_t> own;
    std::vector<std::uint64_t> other;
    Stage stage = Stage::up;
    int bit = 1;  // of the tree's level
    MPI_Request receive = MPI_REQUEST_NULL;
    std::vector<MPI_Request> sends;
    std::unique_ptr<Run> next;  // of those that were given up
  };
  void receive(int from, std::vector<std::uint64_t>& to) const;
  void send(int to) const;
  void combine() const;
  [[nodiscard]] bool received() const;
  [[nodiscard]] bool climb() const;
  [[nodiscard]] bool sent() const;

  std::unique_ptr<Run> run_;
};

}  // namespace tapa
