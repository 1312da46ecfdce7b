/// @file
/// Memory in which the ranks of one node show each other their blocks. Each rank has a region that it alone
/// writes and that all others map: two buffers, used in turn, each a sequence number and the blocks of one
/// round.
///
/// Rounds are numbered from 1 on and round e uses buffer e mod 2. A rank
///   1. writes its blocks of round e into its buffer, then stores e as the buffer's sequence number
///   (release);
///   2. loads each other's sequence number until it is e (acquire), then reads its block from that buffer;
///   3. begins round e + 1 only when it has read all blocks of round e.
///
/// Why nothing is read too early: the number is stored after the blocks (release) and loaded before them
/// (acquire), so who sees e sees the blocks of e. A number cannot skip e: see the next point.
///
/// Why nothing is overwritten too early: a rank writes round e + 2 into the buffer of round e after it has
/// seen the numbers e + 1 of all others (3. for round e + 1). Each of these stored that number after its
/// reads of round e (3. for round e; the release store orders earlier loads before it), and the acquire load
/// that saw it orders the later writes behind. So all reads of round e happen before these writes. That one
/// number says both "my blocks are here" and "I am done with yours" is why two buffers suffice and no rank
/// counts readers.
///
/// Each two members have two slots as well, one in the region of each, for blocks of a middling size, of
/// three lengths: in even rounds each of the two writes the one in its own region, in odd rounds the one in
/// the other's. So in two rounds after each other who writes a slot is who has read it: its cache has the
/// lines already, and a line moves between caches once a round, where a buffer's moves twice (to its reader,
/// and back to be written). Why nothing is overwritten too early: let f be the round of a write, g the last
/// one before that used this slot. If f - g is odd, the writer of f was the reader of g. Else it was the
/// writer of g too, and g <= f - 2: it has seen the reader's number f - 1, which was stored behind all reads
/// of rounds up to f - 2.
///
/// Blocks that stay in their owner's memory and are read there (see shm_exchange.hpp) are not covered by
/// this: their owner must not return before they are read. Who has read one stores the round for its owner in
/// a line of its own region (release), and the owner waits for it (acquire); who has read all of a round may
/// store it once for all owners.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transport/pair_slots.hpp"
#include "transport/shared_block.hpp"

namespace tapa {

struct Doorbell;

/// How blocks of a round are found.
enum class BufferForm : std::uint32_t {
  equal,  ///< in the buffer, all of the same size
  table,  ///< a table in the buffer tells for each member
  apart   ///< all of the same size, one after the other in their sender's memory
};

/// Where a block lies.
struct BlockPlace {
  static constexpr std::uint64_t kBuffer = 0;   ///< in the buffer
  static constexpr std::uint64_t kPrivate = 1;  ///< in its sender's memory
  static constexpr std::uint64_t kSlot = 2;     ///< in the slot for its receiver
  std::uint64_t at = 0;                         ///< offset in the buffer, or address in its sender's memory
  std::uint64_t kind = kBuffer;  ///< one of these, or the ArenaKey of an allocation that others can map
};

/// The beginning of a buffer. Zero-initialised and never constructed. `sequence` is written last and read
/// first.
struct BufferHeader {
  std::atomic<std::uint64_t> sequence;  ///< the round of what the buffer holds
  std::uint32_t
      rounds;  ///< how many rounds the owner needs, told in the first one of an exchange; and its flags
  BufferForm form;
  std::uint64_t bytes;   ///< of each whole block; with a table: of all that the owner sends
  BlockPlace place;      ///< apart: of the block for member 0
  std::uint64_t filled;  ///< table: bit m mod 64 is set when there is something for member m
  std::uint64_t sizes;   ///< table: of what the owner sends and expects, see ShmExchange::sizes_agree()
  std::uint64_t pairs;   ///< table: see PairSlots::reported()
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// One rank's view of the buffers of all members of its node. One exchange at a time uses them.
class ShmBuffers {
 public:
  /// Bytes of a buffer: its header, its table and its blocks. The two of a rank and what the user sends
  /// should fit the second-level cache.
  static constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
  /// Bytes of a region.
  static std::size_t region_bytes();
  /// Most members for which a buffer has room for something of everybody's.
  static constexpr std::size_t kMostMembers = 1024;

  /// `regions[m]` is the region of member m, `bells[m]` its doorbell. `rounds`: that earlier users of these
  /// regions have made, who all have ended; numbers go on from there. `place`: where the first region lies
  /// among all that they could have, so that each is divided alike for all its users.
  ShmBuffers(std::size_t self, std::vector<std::byte*> regions, std::vector<Doorbell*> bells,
             std::uint64_t rounds = 0, std::size_t place = 0);

  /// Lets blocks stay in their senders' memory: those of `from` bytes and more in any memory, and those of
  /// kMappedFrom bytes and more in allocations that others can map. `pids[m]` is the process of member m.
  void let_stay(std::vector<pid_t> pids, std::size_t from);
  /// Of shorter blocks, that all are read costs more than to copy them.
  static constexpr std::size_t kMappedFrom = 1024;

  /// The place of `bytes` bytes for each of `blocks` members from `data` on, when they stay there.
  [[nodiscard]] std::optional<BlockPlace> stays(const std::byte* data, std::size_t bytes,
                                                std::size_t blocks = 1) const;
  /// Whether blocks of this size stay wherever they are.
  [[nodiscard]] bool always_stays(std::size_t bytes) const {
    return bytes >= attach_from_.load(std::memory_order_relaxed);
  }

  /// A member's memory at `place` as seen from here; null when it is not in an allocation that can be mapped.
  [[nodiscard]] const std::byte* view(std::size_t member, BlockPlace place, std::size_t bytes) const;
  /// Copies to `to` from the memory of a member; false when the kernel refuses.
  [[nodiscard]] bool attach(std::size_t member, std::uint64_t address, std::span<std::byte> to) const;

  /// Whether both ends move blocks that stay: a member may have much to read while others wait. Only where
  /// every member has a core: a reader waits for who has taken a piece.
  [[nodiscard]] bool shares_blocks() const { return together_; }
  /// What the reader of a block and its owner have taken of it.
  [[nodiscard]] SharedBlock& shared_block(std::size_t reader, std::size_t owner) const {
    return line(reader, owner).block;
  }
  /// Copies to the memory of a member; false when the kernel refuses.
  [[nodiscard]] bool push(std::size_t member, std::uint64_t address, std::span<const std::byte> from) const;
  /// Once it has refused.
  void stop_push() { pushes_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] bool may_push() const { return pushes_.load(std::memory_order_relaxed); }
  /// Tells `reader` that so many pieces of its block were moved.
  void tell_moved(std::size_t reader, std::size_t count, bool there) const;

  // When the kernel refuses all the same, the reader asks the owner for its block, piece by piece: by a
  // number that it counts up, which the owner repeats when the piece is there.
  /// Bytes of a piece.
  [[nodiscard]] std::size_t piece_bytes() const { return kPiecesBytes / members() / 64 * 64; }
  /// Reader: asks for the next piece. It has read the one before.
  void ask(std::size_t owner) const;
  /// Reader: the piece that it has asked for, or null when it is not there yet.
  [[nodiscard]] const std::byte* given(std::size_t owner) const;
  /// Owner: where the next piece for a reader belongs, if that has asked for one; give() tells that it is
  /// there.
  [[nodiscard]] std::byte* asked(std::size_t reader) const;
  void give(std::size_t reader) const;
  /// From now on only blocks in memory that others can map stay.
  void stop_attach() {
    attach_from_.store(std::numeric_limits<std::size_t>::max(), std::memory_order_relaxed);
  }

  [[nodiscard]] std::size_t self() const { return self_; }
  [[nodiscard]] std::size_t members() const { return regions_.size(); }

  /// The buffer of a member in a round.
  [[nodiscard]] BufferHeader* buffer(std::size_t member, std::uint64_t round) const {
    return reinterpret_cast<BufferHeader*>(buffers_[member] + (round & 1) * (kBufferBytes + kSets));
  }
  /// Where `from` writes in a round a block of `bytes` bytes that `to` reads there, or a part of a longer
  /// one, at most slot_bytes() long. Of two different members. The shortest slots with room are taken, so
  /// that the first calls wait for as few pages as blocks fill.
  [[nodiscard]] std::byte* slot(std::size_t from, std::size_t to, std::uint64_t round,
                                std::size_t bytes) const {
    const std::size_t owner = (round & 1) == 0 ? from : to;
    const std::size_t other = (round & 1) == 0 ? to : from;
    const std::size_t place = other < owner ? other : other - 1;
    const std::size_t length = bytes <= slot_bytes_[0] ? 0 : bytes <= slot_bytes_[1] ? 1 : 2;
    return regions_[owner] + kSlots[length].at + place * slot_bytes_[length];
  }
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_.back(); }
  /// Of the slots of each length.
  [[nodiscard]] const std::array<std::size_t, 3>& slot_lengths() const { return slot_bytes_; }
  /// Whether equal blocks of this size travel in slots, part by part. Shorter ones are cheaper beside each
  /// other.
  [[nodiscard]] bool equal_in_slots(std::size_t bytes) const { return members() > 1 && bytes >= kSlotFrom; }
  /// The same for one of different blocks.
  [[nodiscard]] bool in_slot(std::size_t bytes) const {
    return bytes <= slot_bytes() && equal_in_slots(bytes);
  }
  static constexpr std::size_t kSlotFrom = 512;
  /// Tells a member that its blocks of this round that stay with it were read here.
  void tell_read(std::size_t owner) const;
  /// The same to all members: everything of this round was read here.
  void tell_all_read() const;
  /// Whether readers of equal blocks tell their owners together. One store instead of many, but an owner then
  /// waits for all that the reader has to read: no loss where every rank has a core.
  void tell_together(bool together) { together_ = together; }
  [[nodiscard]] bool tells_together() const { return together_; }
  /// Whether `reader` has read the own blocks of a round that stay here.
  [[nodiscard]] bool was_read(std::size_t reader, std::uint64_t round) const;

  /// In which order the buffers of the other members are looked at; by default from the next member on.
  /// Before the first exchange.
  void set_order(std::vector<std::uint32_t> others) { order_ = std::move(others); }
  [[nodiscard]] const std::vector<std::uint32_t>& order() const { return order_; }

  /// Whether members may sleep while they wait: then publish() rings.
  void expect_sleepers(bool sleepers) { sleepers_ = sleepers; }
  [[nodiscard]] bool expects_sleepers() const { return sleepers_.load(std::memory_order_relaxed); }

  /// Messages of calls by pairs, which are no rounds.
  [[nodiscard]] PairSlots& pairs() { return pairs_; }
  [[nodiscard]] const PairSlots& pairs() const { return pairs_; }
  /// Wakes a member that may sleep.
  void ring(std::size_t member) const {
    if (expects_sleepers()) wake(member);
  }

  /// Stores the own sequence number of the next round, whose blocks are written.
  void publish();
  /// Asks for the first lines of the own buffer of the next round, about `bytes` of it, so that the next call
  /// need not wait until the others give them up. They do not read it any more.
  void fetch_next(std::size_t bytes) const;
  /// Has the pages of a region there that the first short blocks use, so that they do not wait for the
  /// system: in its owner, and, when all owners have done that, in the others.
  static void populate(std::byte* region);
  void map_others();
  /// The last round that was published.
  [[nodiscard]] std::uint64_t round() const { return round_; }

  /// Makes the caller the one that uses these buffers, unless somebody does; release() ends that.
  [[nodiscard]] bool claim() { return !claimed_.exchange(true, std::memory_order_acquire); }
  void release() { claimed_.store(false, std::memory_order_release); }

 private:
  /// What a member tells another one, beside sequence numbers. Zero-initialised and never constructed.
  struct Line {
    std::atomic<std::uint64_t> read;   // last round in which the first has read the second's block; on the
                                       // line of a member with itself: everybody's
    std::atomic<std::uint64_t> asked;  // pieces that the first has asked the second for
    std::atomic<std::uint64_t> given;  // pieces that the first has given the second
    SharedBlock block;                 // of the second, which the first reads
  };
  /// Only `teller` changes it, but for the block.
  [[nodiscard]] Line& line(std::size_t writer, std::size_t reader) const;
  /// The memory of pieces that `owner` gives to `reader`.
  [[nodiscard]] std::byte* piece(std::size_t owner, std::size_t reader) const;
  static constexpr std::size_t kSets =
      4096;  // bytes after which addresses share a set of the first-level cache
  // A region: a line for each member, the pieces that were asked for, the slots, the buffers, the pairs.
  static constexpr std::size_t kPiecesAt = kMostMembers * 64;
  static constexpr std::size_t kPiecesBytes = std::size_t{64} << 10;
  struct Part {
    std::size_t at, bytes;
  };
  static constexpr std::size_t kLongSlotsAt = kPiecesAt + kPiecesBytes;
  static constexpr std::size_t kMiddleSlotsAt = kLongSlotsAt + kBufferBytes;
  static constexpr std::size_t kMiddleSlotsBytes = std::size_t{132} << 10;  // 4 KiB and a line for 32 members
  static constexpr std::size_t kShortSlotsAt = kMiddleSlotsAt + kMiddleSlotsBytes;
  static constexpr std::size_t kShortSlotsBytes = std::size_t{36} << 10;  // 1 KiB likewise
  static constexpr std::array<Part, 3> kSlots{
      {{kShortSlotsAt, kShortSlotsBytes}, {kMiddleSlotsAt, kMiddleSlotsBytes}, {kLongSlotsAt, kBufferBytes}}};
  static constexpr std::size_t kBuffersAt = kShortSlotsAt + kShortSlotsBytes;
  static constexpr std::size_t kPairsAt = kBuffersAt + 2 * (kBufferBytes + kSets);
  static_assert(PairSlots::kMostMembers == kMostMembers);
  // What short blocks use of it: their slots, and the beginnings of both buffers, staggered.
  static constexpr std::size_t kShort = (std::size_t{16} << 10) + kSets;
  static constexpr std::array<Part, 2> kShortBlocks{
      {{kShortSlotsAt, kShortSlotsBytes + kShort}, {kBuffersAt + kBufferBytes + kSets, kShort}}};
  void ring_others() const;
  void wake(std::size_t member) const;

  static constexpr unsigned kRoundShift = 24;  // more pieces are not asked for in a round

  std::size_t self_;
  std::uint64_t before_;  // rounds of earlier users
  std::vector<std::byte*> regions_;
  std::vector<std::byte*> buffers_;  // the first of each
  std::vector<Doorbell*> bells_;
  std::vector<std::uint32_t> order_;
  std::array<std::size_t, 3> slot_bytes_;
  std::atomic<bool> sleepers_{false};
  bool together_ = false;
  std::vector<pid_t> pids_;
  std::atomic<std::size_t> attach_from_ = std::numeric_limits<std::size_t>::max();
  std::atomic<bool> pushes_{true};
  std::uint64_t round_ = 0;
  PairSlots pairs_;
  std::atomic<bool> claimed_{false};
};

/// The other members, those first whose caches and memory are near: level[m] is the level at which this rank
/// reaches member m (0 is the nearest). The nearest ones from the next member on; of those farther off the
/// k-th rank of a group begins with the k-th, so that its ranks do not read the same buffers at once.
[[nodiscard]] std::vector<std::uint32_t> near_first(std::size_t self, std::span<const int> level);

}  // namespace tapa
