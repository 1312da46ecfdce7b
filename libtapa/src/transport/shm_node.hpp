/// @file
/// Messages between the ranks of one node through shared memory rings: matching, flow control, sleeping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transport/pieces.hpp"
#include "transport/shm_ring.hpp"
#include "transport/shm_segment.hpp"

namespace tapa {

/// Where the ends of a rank's rings lie.
struct RingEnds {
  ShmRing out;               ///< to the peer
  ShmRing in;                ///< from it
  Doorbell* bell = nullptr;  ///< the peer's
};

/// This rank's end of all rings of its node, for all its communicators; their messages differ by their tags.
/// Peers are numbered as the ranks of the node are. Thread-safe.
class ShmNode {
 public:
  /// `ends[i]` are those of peer i, which must outlive this; `own`: this rank's number, whose entry is passed
  /// over; `bell`: its own.
  ShmNode(const std::vector<RingEnds>& ends, std::size_t own, Doorbell* bell);

  /// Where completed slots of one user of the node go.
  using Completions = std::vector<int>;

  /// Starts a message; `done` gets `slot` when it is complete, at once or from progress().
  /// The list of pieces must outlive the message.
  void send(int peer, int tag, Pieces data, int slot, Completions* done);
  void recv(int peer, int tag, Pieces data, int slot, Completions* done);

  /// Moves what can be moved; true when anything moved.
  bool progress();

  /// The same, and true also when `done` has slots: another user's progress() may have put them there.
  bool progress_for(const Completions& done);

  /// progress(), then moves all slots of `done` to the end of `to`.
  void progress(Completions& done, Completions& to);

  /// Forgets all unfinished messages that would complete into `done`: for a user that gives up after an
  /// error.
  void forget(const Completions* done);

  /// Sleeps until a peer rings or for `microseconds`; returns at once when `ready()`, which is asked when
  /// peers know already that this rank sleeps. One thread at a time: whoever wakes tells peers that nobody
  /// sleeps.
  template <typename Ready>
  void sleep(long microseconds, const Ready& ready) {
    const std::uint32_t seen = own_doorbell_->rings.load(std::memory_order_acquire);
    own_doorbell_->sleeping.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!ready()) own_doorbell_->sleep(seen, microseconds);
    own_doorbell_->sleeping.store(0, std::memory_order_relaxed);
  }

 private:
  struct Header {
    std::int64_t tag;
    std::uint64_t bytes;
  };
  struct OwnMemory {
    explicit OwnMemory(std::size_t bytes) : data(bytes), piece(data) {}
    std::vector<std::byte> data;
    Piece piece;
  };
  struct Outgoing {
    Header header;
    PieceCursor rest;
    std::size_t sent;  // of header and data together
    int slot;
    Completions* done;
    std::unique_ptr<OwnMemory> kept;  // the rest, when its owner has gone
  };
  struct Posted {
    std::int64_t tag;
    Pieces data;
    std::size_t bytes;
    int slot;
    Completions* done;
  };
  /// A message that came before its receive was posted. Where there is no memory for it, it is lost.
  struct Unexpected {
    Unexpected(std::int64_t its_tag, std::size_t its_bytes);
    std::int64_t tag;
    std::size_t bytes;
    std::unique_ptr<OwnMemory> memory;  // null: lost
    Piece piece;
    std::size_t got = 0;
    bool claimed = false;
    Posted claim{};
  };
  struct Link {
    int peer = -1;
    Doorbell* doorbell = nullptr;  // the peer's
    ShmRing out;
    ShmRing in;
    std::vector<Outgoing> queue;  // not yet all written, in order
    std::size_t queue_head = 0;
    std::vector<Posted> posted;
    std::vector<std::unique_ptr<Unexpected>> unexpected;
    bool has_header = false;  // of a message that has not begun
    bool receiving = false;   // inside a message
    Header header{};
    std::size_t got = 0;
    PieceCursor rest;  // where its next bytes go
    Posted current{};  // its receive, unless `stray`
    Unexpected* stray = nullptr;
  };

  bool progress_locked();
  void orphan_current(Link& link);
  bool write_queued(Link& link);
  bool push(Link& link);
  bool pull(Link& link);
  bool begin_message(Link& link);
  void end_message(Link& link);
  static void complete(const Posted& posted, std::size_t bytes);
  void finish_stray(Link& link, Unexpected* stray);

  std::mutex mutex_;  // of all below
  Doorbell* own_doorbell_;
  std::size_t own_;
  std::vector<Link> links_;  // by peer; the own one is never used
};

}  // namespace tapa
