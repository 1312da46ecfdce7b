/// @file
/// A small number of each rank of one node, told to all in each of many calls, through memory: a message
/// would take longer than all else.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "run/progress.hpp"
#include "transport/mapping.hpp"
#include "transport/waiter.hpp"

namespace tapa {

class SharedWords {
 public:
  static constexpr std::uint64_t kMost = 0xff;  ///< of a number

  SharedWords() = default;
  SharedWords(const SharedWords&) = delete;
  SharedWords& operator=(const SharedWords&) = delete;

  /// Makes the memory. Collective over `comm`, whose ranks share a node. False, on all ranks: there is none.
  [[nodiscard]] bool open(MPI_Comm comm);
  /// Local.
  void close();

  /// The bits that all ranks' numbers have. Collective: waits for all ranks, making operations progress.
  [[nodiscard]] std::uint64_t common_bits(std::uint64_t mine, Waiter waiter) {
    ++call_;
    // Who writes call n has read all of call n-1, so nobody reads call n-2 any more: two places are enough.
    const std::size_t place = call_ % 2;
    own_[place].store(call_ << 8 | mine, std::memory_order_release);
    std::uint64_t bits = mine;
    for (const std::atomic<std::uint64_t>* const words : of_rank_) {
      std::uint64_t word = 0;
      const auto there = [&] {
        word = words[place].load(std::memory_order_acquire);
        return word >> 8 == call_;
      };
      for (int idle = 0; !there(); ++idle) {
        waiter.pause(idle, false, there);
        waiter.count_quiet_poll();
        if (idle % Progress::relay_every == Progress::relay_every - 1) Progress::relay();
      }
      bits &= word;
    }
    return bits;
  }

 private:
  using TokenText = std::array<char, 128>;  // of the file of a rank
  /// The pages of all ranks. Throws std::bad_alloc.
  void map(std::span<const TokenText> tokens, std::size_t rank);

  MapShare share_;
  std::vector<Mapping> mappings_;  // of all ranks
  std::uint64_t call_ = 0;
  std::atomic<std::uint64_t>* own_ = nullptr;
  std::vector<const std::atomic<std::uint64_t>*> of_rank_;  // of the others
};

}  // namespace tapa
