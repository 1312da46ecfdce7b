/// @file
/// Messages to ranks that do not expect them. Few ranks add up, while messages travel, how many go to each
/// rank. Many avoid numbers of all ranks by the consensus of Hoefler, Siebert and Lumsdaine (2010): each
/// sends synchronously and receives what comes; when all its messages have been received it enters a barrier
/// that does not block, and when that has ended there are no more to come.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/small_reduce.hpp"
#include "run/sparse_inbox.hpp"
#include "transport/message_space.hpp"

namespace tapa {

/// What goes to one rank.
struct SparseMessage {
  int to;
  std::span<const std::byte> data;
};

/// Reusable. All ranks of a communicator take part in one after the other.
class SparseMessages {
 public:
  static constexpr int kTags = 4;
  /// Ranks up to which they are counted: their numbers are one short message.
  static constexpr std::size_t kMostCounted = 256;

  explicit SparseMessages(std::size_t most_counted = kMostCounted);
  ~SparseMessages();
  SparseMessages(const SparseMessages&) = delete;
  SparseMessages& operator=(const SparseMessages&) = delete;

  /// Starts, with kTags tags of `space` from `first_tag` on, which are for this alone. The messages' data and
  /// `inbox` are used until the end. All ranks learn the sum of the numbers `contribution`. Throws CallError,
  /// and std::bad_alloc before anything is sent.
  void start(const MessageSpace& space, int first_tag, int rank, std::span<const SparseMessage> messages,
             std::uint64_t contribution, SparseInbox& inbox);

  /// Whether all has come and gone. Throws CallError, and what `inbox` has thrown at the end: nobody waits
  /// for a rank without memory, which drops what it cannot keep.
  [[nodiscard]] bool test();
  /// After the end.
  [[nodiscard]] std::uint64_t contributed() const { return sums_.result()[0]; }
  /// Whom or what it waits for.
  [[nodiscard]] std::string waits_for() const;

 private:
  enum class Stage : std::uint8_t { send, sum, receive, rest, done };
  struct Envelope;
  struct Flight;

  void start_sums(std::span<const SparseMessage> messages, std::uint64_t contribution);
  void send(const SparseMessage& message, Envelope& envelope);
  void receive_envelopes();
  void receive(const Envelope& envelope, int source);
  [[nodiscard]] std::uint64_t expected() const { return sums_.result()[1 + static_cast<std::size_t>(rank_)]; }
  [[nodiscard]] std::optional<std::byte*> room_for(const Envelope& envelope);
  [[nodiscard]] static bool complete(std::vector<MPI_Request>& requests);
  void give_up();

  Stage stage_ = Stage::done;
  MessageSpace space_;
  int tag_ = 0;
  int rank_ = 0;
  std::size_t most_counted_;
  bool counted_ = false;
  std::uint64_t calls_ = 0;
  std::uint64_t came_ = 0;  // messages
  SparseInbox* inbox_ = nullptr;
  std::unique_ptr<Flight> flight_;
  SmallReduce sums_;            // of contributions, then of messages to each rank; or the barrier
  std::exception_ptr failure_;  // the first
};

}  // namespace tapa
