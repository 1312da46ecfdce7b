/// @file
/// A small number of each rank of a node, told to all in each call through memory, as messages take longer.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string>

#include "run/error.hpp"
#include "run/log.hpp"
#include "run/on_all_ranks.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"
#include "transport/mapping.hpp"
#include "transport/memory_file.hpp"
#include "transport/shm_segment.hpp"
#include "transport/waiter.hpp"

namespace tapa {

class SharedWords {
 public:
  static constexpr std::uint64_t kMost = 0xff;  ///< of a number

  /// Makes a page of memory for each rank. Collective over the ranks of one node. False, on all: there is
  /// none.
  // Not MPI's windows, as these are freed together.
  [[nodiscard]] bool open(MPI_Comm comm) {
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    rank_ = static_cast<std::size_t>(rank_in(comm));
    ranks_ = static_cast<std::size_t>(size_of(comm));
    const std::size_t bytes = ranks_ * page_bytes();
    std::string why;
    std::array<char, 128> token{};  // of rank 0's file
    std::optional<ShmSegment> file;
    const auto make_file = [&] {
      bool made = share_.grow(1, bytes, why);
      if (made && rank_ == 0) file = ShmSegment::create(why);
      made = made && (rank_ != 0 || (file && file->resize(bytes, why)));
      if (!made) throw std::bad_alloc();
      if (file) file->token().copy(token.data(), token.size() - 1);
    };
    bool good = on_all_ranks(comm, make_file);
    if (good) {
      check_mpi(PMPI_Bcast(token.data(), static_cast<int>(token.size()), MPI_CHAR, 0, comm), "MPI_Bcast");
      // A new file is clear: who is through here first may write at once.
      good = on_all_ranks(comm, [&] {
        const int fd = file ? file->fd() : ShmSegment::open_token(token.data());
        if (fd >= 0) words_ = Mapping(fd, 0, bytes);
        if (!file && fd >= 0) ::close(fd);
        if (!words_.ok()) throw std::bad_alloc();
      });
    }
    if (good) return true;
    close();
    log_info("no memory for shared words" + (why.empty() ? why : ": " + why));
    return false;
  }
  /// Local.
  void close() {
    words_ = {};
    share_ = {};
  }

  /// The bits that all ranks' numbers have. Collective: waits for all ranks, making operations progress.
  [[nodiscard]] std::uint64_t common_bits(std::uint64_t mine, Waiter waiter) {
    ++call_;
    // Who writes call n has read all of call n-1, so nobody reads call n-2 any more: two places are enough.
    const std::size_t place = call_ % 2;
    word_of(rank_, place).store(call_ << 8 | mine, std::memory_order_release);
    std::uint64_t bits = mine;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      std::uint64_t word = 0;
      const auto there = [&] {
        word = word_of(rank, place).load(std::memory_order_acquire);
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
  static constexpr std::size_t kWordsAt = 128;  // in a page: processors fetch lines in pairs

  [[nodiscard]] std::atomic<std::uint64_t>& word_of(std::size_t rank, std::size_t place) const {
    std::byte* const words = words_.address() + rank * page_bytes() + kWordsAt;
    return reinterpret_cast<std::atomic<std::uint64_t>*>(words)[place];
  }

  MapShare share_;
  Mapping words_;
  std::size_t rank_ = 0;
  std::size_t ranks_ = 0;
  std::uint64_t call_ = 0;
};

}  // namespace tapa
