/// @file
/// Messages between the ranks of one node through shared memory rings: matching, flow control, sleeping.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "transport/mapping.hpp"
#include "transport/memory_file.hpp"
#include "transport/pieces.hpp"
#include "transport/shm_buffers.hpp"
#include "transport/shm_segment.hpp"

namespace tapa {

/// This rank's end of all rings of its node. Shared by the transports of one communicator; thread-safe.
class ShmNode {
 public:
  /// Opens the rings between `rank` and the other `members`: the ranks of the communicator that share the
  /// node, ascending, `rank` among them; tokens[i] is that of members[i]. When these are all `ranks` of the
  /// communicator, there are shared buffers as well. Null when a segment cannot be opened, or when all nodes
  /// of the process would hold more than its share of mappings; `why` says so. Then no rank may use shared
  /// memory: agree on that, and call agreed() when all could, before anything is sent. `page`: a multiple of
  /// the system's page size.
  static std::unique_ptr<ShmNode> connect(ShmSegment segment, int rank, int ranks,
                                          const std::vector<int>& members,
                                          const std::vector<std::string>& tokens, std::string& why,
                                          std::size_t page = page_bytes());

  /// All members have connected: the file that they opened is no longer needed. With `attach` all members can
  /// read the memory of all others: blocks in shared buffers of `attach_from` bytes and more are read there.
  void agreed(bool attach, std::size_t attach_from);

  /// Whether this rank can read the memory of all other members.
  [[nodiscard]] bool can_attach() const { return can_attach_; }

  // Buffers are divided into channels, so that several exchanges can be under way at once. What follows is
  // called by one thread at a time.

  /// The buffers of a channel: of the first one from the beginning, of others when they were prepared. Null
  /// when there are none: nodes may have too many members for shared buffers.
  [[nodiscard]] ShmBuffers* buffers(std::size_t channel) const {
    return channel < buffers_.size() ? buffers_[channel].get() : nullptr;
  }
  static constexpr std::size_t kChannels = 32;

  /// After agreed(): maps what a channel needs, and perhaps some more. Local; it may fail on one member
  /// alone, so agree on the result before any member uses the channel. A later call may succeed.
  [[nodiscard]] bool prepare_channel(std::size_t channel);

  /// In which order shared buffers look at the other members, see ShmBuffers. Before the first exchange.
  void set_order(const std::vector<std::uint32_t>& others);

  /// Whether members may sleep while they wait for each other's buffers: then they are rung. Alike on all
  /// members.
  void expect_sleepers(bool sleepers);

  /// See ShmBuffers.
  void tell_together(bool together);

  /// Where completed slots of one user of the node go.
  using Completions = std::vector<int>;

  [[nodiscard]] bool has(int peer) const { return link_of_[static_cast<std::size_t>(peer)] >= 0; }

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
  /// A message that came before its receive was posted.
  struct Unexpected {
    Unexpected(std::int64_t its_tag, std::size_t bytes) : tag(its_tag), memory(bytes) {}
    std::int64_t tag;
    OwnMemory memory;
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
    bool receiving = false;  // inside a message
    Header header{};
    std::size_t got = 0;
    PieceCursor rest;  // where its next bytes go
    Posted current{};  // its receive, unless `stray`
    Unexpected* stray = nullptr;
  };

  ShmNode() = default;
  /// What was mapped together: of each member the same part of its segment.
  struct Part {
    MapShare share;
    std::vector<Mapping> maps;
  };
  [[nodiscard]] bool map_beginning(const std::vector<int>& members, const std::vector<std::string>& tokens,
                                   std::string& why);
  [[nodiscard]] bool map_more();
  [[nodiscard]] std::byte* beginning_of(std::size_t member, std::size_t at) const;
  void open_link(int peer, std::size_t index);
  void add_channels(std::vector<std::byte*> regions, std::size_t count);
  void set_up(ShmBuffers& buffers) const;
  bool progress_locked();
  void orphan_current(Link& link);
  bool write_queued(Link& link);
  bool push(Link& link);
  bool pull(Link& link);
  bool begin_message(Link& link);
  void end_message(Link& link);
  void finish_stray(Link& link, Unexpected* stray);

  std::unique_ptr<ShmSegment> segment_;
  SegmentLayout layout_;
  std::size_t own_ = 0;      // which member this rank is
  std::vector<Part> parts_;  // the beginnings of all segments, then further channels
  std::vector<pid_t> pids_;  // of the members
  std::vector<Doorbell*> bells_;
  bool can_attach_ = true;
  std::array<std::unique_ptr<ShmBuffers>, kChannels> buffers_;
  std::size_t channels_ = 0;  // that are prepared
  // What all channels are told, also those that come later.
  std::size_t attach_from_ = 0;
  std::vector<std::uint32_t> order_;
  bool sleepers_ = false;
  bool together_ = false;
  std::mutex mutex_;  // of all below
  Doorbell* own_doorbell_ = nullptr;
  std::vector<int> link_of_;  // rank -> index in links_, or -1
  std::vector<Link> links_;
};

}  // namespace tapa
