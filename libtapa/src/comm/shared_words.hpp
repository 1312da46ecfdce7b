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
#include <span>
#include <string>
#include <vector>

#include "run/error.hpp"
#include "run/log.hpp"
#include "run/on_all_ranks.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"
#include "transport/mapping.hpp"
#include "transport/shm_segment.hpp"
#include "transport/waiter.hpp"

namespace tapa {

class SharedWords {
 public:
  static constexpr std::uint64_t kMost = 0xff;  ///< of a number

  SharedWords() = default;
  SharedWords(const SharedWords&) = delete;
  SharedWords& operator=(const SharedWords&) = delete;

  /// Makes the memory. Collective over the ranks of one node. False, on all: there is none.
  // Not MPI's windows, as these are freed together.
  [[nodiscard]] bool open(MPI_Comm comm) {
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
    const auto count = static_cast<std::size_t>(size_of(comm));
    std::string why;
    TokenText own{};
    std::optional<ShmSegment> segment;
    std::vector<TokenText> tokens;
    const auto make_room = [&] {
      tokens.resize(count);
      mappings_.reserve(count);
      of_rank_.reserve(count);
      if (share_.grow(count, count * page_bytes(), why)) segment = ShmSegment::create(why);
      if (!segment) throw std::bad_alloc();
      segment->token().copy(own.data(), own.size() - 1);
    };
    constexpr int bytes = sizeof own;
    bool good = on_all_ranks(comm, make_room);
    if (good) {
      check_mpi(PMPI_Allgather(own.data(), bytes, MPI_BYTE, tokens.data(), bytes, MPI_BYTE, comm),
                "MPI_Allgather");
      // New files are clear: who is through here first may write at once.
      good = on_all_ranks(comm, [&] { map(tokens, static_cast<std::size_t>(rank_in(comm))); });
    }
    if (good) return true;
    close();
    log_info("no memory for shared words" + (why.empty() ? why : ": " + why));
    return false;
  }
  /// Local.
  void close() {
    of_rank_.clear();
    own_ = nullptr;
    mappings_.clear();
    share_ = {};
  }

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
  static constexpr std::size_t kWordsAt = 128;  // in a segment: processors fetch lines in pairs

  static Mapping map_token(const char* token) {
    const int fd = ShmSegment::open_token(token);
    if (fd < 0) return {};
    Mapping mapping(fd, 0, page_bytes());
    ::close(fd);
    return mapping;
  }

  using TokenText = std::array<char, 128>;  // of the file of a rank
  /// The pages of all ranks. Throws std::bad_alloc.
  void map(std::span<const TokenText> tokens, std::size_t rank) {
    for (std::size_t peer = 0; peer < tokens.size(); ++peer) {
      Mapping mapping = map_token(tokens[peer].data());
      if (!mapping.ok()) throw std::bad_alloc();
      auto* const words =
          std::launder(reinterpret_cast<std::atomic<std::uint64_t>*>(mapping.address() + kWordsAt));
      if (peer == rank)
        own_ = words;
      else
        of_rank_.push_back(words);
      mappings_.push_back(std::move(mapping));
    }
  }

  MapShare share_;
  std::vector<Mapping> mappings_;  // of all ranks
  std::uint64_t call_ = 0;
  std::atomic<std::uint64_t>* own_ = nullptr;
  std::vector<const std::atomic<std::uint64_t>*> of_rank_;  // of the others
};

}  // namespace tapa
