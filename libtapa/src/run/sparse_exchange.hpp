/// @file
/// A sparse exchange: each rank knows to whom it sends, and learns who sends to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "run/shm_exchange.hpp"
#include "run/sparse_inbox.hpp"
#include "run/sparse_messages.hpp"

namespace tapa {

/// One after the other on a communicator. Reusable: clear, add, begin, advance until it says so.
class SparseExchange {
 public:
  SparseExchange(int rank, int ranks);

  /// Forgets what is sent and what has come.
  void clear();
  /// A message for a rank; its data are used until the end. False: there is one already.
  [[nodiscard]] bool add(int to, std::span<const std::byte> data);
  /// This rank sends nothing, as its call was wrong or it has no memory for it, of which all ranks learn.
  void be_wrong();

  /// Through memory that all ranks share, whose claim the caller has, or by messages, with
  /// SparseMessages::kTags tags.
  void begin(ShmBuffers& buffers);
  void begin(const MessageSpace& space, int first_tag);
  /// True at the end. Throws CallError, and at the end TransportError where a message could not be received
  /// and std::bad_alloc where none could be sent, of which all ranks learn as of a wrong call.
  [[nodiscard]] bool advance();

  /// After the end: what has come, and how many ranks were wrong; where it is one, which.
  [[nodiscard]] const SparseInbox& inbox() const { return inbox_; }
  [[nodiscard]] std::uint64_t wrong_ranks() const { return contributed() >> kRankBits; }
  [[nodiscard]] std::uint64_t wrong_rank() const {
    return contributed() & ((std::uint64_t{1} << kRankBits) - 1);
  }

  /// What is sent; what is for itself only before it begins.
  [[nodiscard]] std::span<const SparseMessage> messages() const { return messages_; }
  [[nodiscard]] std::size_t bytes_sent() const;
  /// Whom it waits for.
  [[nodiscard]] std::string waits_for() const;

 private:
  static constexpr int kRankBits = 40;
  [[nodiscard]] std::uint64_t contributed() const {
    return by_memory_ ? memory_.contributed() : by_messages_.contributed();
  }
  void drop();
  void keep_own();

  int rank_;
  std::vector<SparseMessage> messages_;
  std::vector<ShmBlock> send_;  // the same, by rank
  std::vector<ShmBlock> recv_;  // anything
  std::uint64_t contribution_ = 0;
  bool by_memory_ = false;
  ShmExchange memory_;
  SparseMessages by_messages_;
  SparseInbox inbox_;
  std::exception_ptr failure_;  // that the exchange has gone on after
};

}  // namespace tapa
