/// @file
/// A few numbers from every member of a set of ranks to every other, without blocking and without a
/// collective, so that several can be under way in any order.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

#include "transport/message_space.hpp"

namespace tapa {

/// Reusable; its memory grows only.
class SmallExchange {
 public:
  ~SmallExchange() { give_up(); }
  SmallExchange() = default;
  SmallExchange(const SmallExchange&) = delete;
  SmallExchange& operator=(const SmallExchange&) = delete;

  /// Starts, between ranks of the communicator that has `space`; one that was left unfinished is given up.
  /// Sends `each` numbers to every rank of `members` and receives as many from each. `outgoing` holds them
  /// for members[0], members[1], ...; with `same` it holds `each` numbers that go to all. Throws CallError.
  void start(const MessageSpace& space, int tag, std::vector<int> members, std::size_t each,
             std::span<const std::size_t> outgoing, bool same);

  /// Whether all numbers are there. Throws CallError.
  [[nodiscard]] bool test();

  /// Whether messages are under way.
  [[nodiscard]] bool pending() const { return !requests_.empty(); }
  /// Forgets what is under way, whose tag may not be used again. Its memory stays: MPI may still use it.
  void give_up();

  [[nodiscard]] const std::vector<int>& members() const { return members_; }
  /// What members()[i] sent.
  [[nodiscard]] std::span<const std::size_t> from(std::size_t i) const {
    return std::span(incoming_).subspan(i * each_, each_);
  }
  /// Members whose numbers are not there yet, at most `limit`.
  [[nodiscard]] std::vector<int> missing(std::size_t limit) const;

 private:
  std::vector<int> members_;
  std::size_t each_ = 0;
  std::vector<std::size_t> outgoing_;
  std::vector<std::size_t> incoming_;
  std::vector<MPI_Request> requests_;  // receives, then sends
};

}  // namespace tapa
