/// @file
/// The size that choices for alltoallv and alltoallw go by, as their blocks differ from rank to rank.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "autotune/autotuner.hpp"
#include "run/small_reduce.hpp"

namespace tapa {

/// The mean block of an earlier call, of all ranks: calls over shared buffers tell it on the side (shared()),
/// all others by a sum that is under way while calls go on (agree()).
class MeanBlock {
 public:
  /// Called in turn by each such call with the bytes that it sends; nothing until the number is there.
  /// `blocks`: of all ranks; `tag`: for this alone. Throws CallError. No lock may be held, as MPI is called.
  // The sum is started at calls 0, 1, 2, 4, 8, ... and every 16th. Call 0 waits for its own sum, later ones
  // for that of an earlier call, which is complete as a rule: what is agreed costs no round trip.
  [[nodiscard]] std::optional<std::size_t> agree(const MessageSpace& space, int tag, int rank, int ranks,
                                                 std::uint64_t blocks, std::size_t own_bytes) {
    const auto start = [&] {
      const std::uint64_t own = own_bytes;
      constexpr Combine how = Combine::sum;
      sum_.start(space, tag, rank, ranks, {&own, 1}, {&how, 1});
    };
    if (calls_ == 0 && !sum_.pending()) start();
    if (sum_.pending()) {
      if (!sum_.test()) return std::nullopt;
      mean_ = size_class_of(static_cast<std::size_t>(sum_.result()[0] / blocks));
    }
    if (calls_ > 0 && (std::has_single_bit(calls_) || calls_ % 16 == 0)) start();
    ++calls_;
    return mean_;
  }

  /// A call has ended: bytes that all ranks have sent over shared buffers; nothing: it was left to MPI.
  void note(std::optional<std::uint64_t> bytes, int size) {
    if (!bytes) {
      ++by_mpi_;
      return;
    }
    shared_ = *bytes / (static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(size));
    by_mpi_ = 0;
  }
  [[nodiscard]] const std::optional<std::size_t>& shared() const { return shared_; }
  /// Whether it is time for a call over shared buffers: those that MPI carries out tell nobody their mean.
  [[nodiscard]] bool due() const { return by_mpi_ + 1 >= kTellEvery; }
  void forget() {
    shared_.reset();
    by_mpi_ = 0;
  }

  /// Gives up what may be under way; there are no calls after it.
  void give_up() { sum_.give_up(); }

 private:
  static constexpr unsigned kTellEvery = 16;

  std::optional<std::size_t> shared_;
  unsigned by_mpi_ = 0;      // calls left to MPI since it was told
  std::uint64_t calls_ = 0;  // of agree() that ended
  SmallReduce sum_;
  std::size_t mean_ = 0;
};

}  // namespace tapa
