/// @file
/// The shared-memory exchange: one all-to-all over the buffers of a node, as a state machine that never
/// blocks.
///
/// A block is copied into its sender's buffer and out again by its receiver. Long blocks stay where they are
/// when the kernel lets ranks read each other's memory, shorter ones too when they lie in memory that others
/// can map: the buffer tells their place and the receiver copies them straight from there. What does not fit
/// into a buffer takes several rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/shm_buffers.hpp"
#include "transport/transport.hpp"

namespace tapa {

namespace shm_layout {
struct BlockEntry;
}

/// What one rank sends to, or receives from, one member. No data: the block is not in one piece and
/// BlockPacker moves it.
struct ShmBlock {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t unit =
      0;  ///< without data: parts of it of a multiple of so many bytes can be moved; 0: only all
  bool announced = false;  ///< sent: its receiver is told of it even if it has no bytes, by scatter()
};

/// The blocks of one side, by member.
struct ShmSide {
  ShmSide(const std::vector<ShmBlock>& all, const std::vector<std::uint32_t>* others = nullptr)
      : blocks(all), filled(others) {}
  std::span<const ShmBlock> blocks;
  const std::vector<std::uint32_t>* filled;  ///< the other members whose blocks have bytes; null: any may
};

/// Copies blocks that are not in one piece.
class BlockPacker {
 public:
  virtual ~BlockPacker() = default;
  /// Copies `bytes` bytes of the block for `member`, as it is packed, from `begin` on, to `to`: all, or such
  /// a part that both are multiples of its unit.
  virtual void gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to) = 0;
  /// Copies such a part of the block from `member` out of `from` to its place. The last part of a block that
  /// is shorter than expected may end anywhere.
  virtual void scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) = 0;
  /// Copies the block for this rank, `member`, to where that from it belongs; both have as many bytes and
  /// share no memory.
  virtual void copy(std::size_t member) = 0;
  /// Memory of so many bytes of a block for `member` (`sent`) or from it that travels in other parts: of a
  /// whole block, or of whole units of one whose units are longer than a byte. The next call for that block
  /// may move it.
  virtual std::byte* room(std::size_t member, bool sent, std::size_t bytes) = 0;
  /// Whether what is received stays in its room, which must hold a whole block then.
  [[nodiscard]] virtual bool keeps_rooms() const { return false; }
  /// Takes the memory that copy() will need.
  virtual void prepare_copy(std::size_t) {}
  /// The exchange has ended: no room is needed any more.
  virtual void release_rooms() = 0;
};

/// Reusable; between exchanges it keeps some numbers for each member, at most 200 KiB.
class ShmExchange {
 public:
  /// Takes the memory that exchanges among so many members need, but for packed blocks: then they ask for
  /// none. Otherwise the first one does so when it begins.
  void reserve(std::size_t members);

  /// How the ends of blocks are compared: those of each, or, where all should be equal, only their sums.
  enum class Compare : std::uint8_t { nothing, blocks, sums };

  /// All blocks of all ranks have `bytes` bytes and lie one after the other. `recv` may be `send` when
  /// fits(). Precondition of both forms: the buffers are claimed.
  void begin(ShmBuffers& buffers, const std::byte* send, std::byte* recv, std::size_t bytes);
  /// Blocks of any sizes; shorter ones may arrive than `recv` has. The blocks and `packer` (null: all blocks
  /// have data) are used until the end. `overlap`: blocks that are received may overlap those that
  /// are sent, for which fits() must hold.
  /// `compare`: whether the ends of all blocks are compared; alike on all ranks. `known`: both ends of each
  /// block know whether it has bytes, so that calls may go by pairs (transport/pair_slots.hpp); alike on all
  /// ranks.
  void begin(ShmBuffers& buffers, const ShmSide& send, const ShmSide& recv, BlockPacker* packer,
             bool overlap = false, Compare compare = Compare::nothing, bool known = false);

  /// All ranks learn the sum of these numbers. After begin() of blocks whose ends are not compared.
  void contribute(std::uint64_t number) { own_sizes_ = sizes_ = number; }
  /// After the end.
  [[nodiscard]] std::uint64_t contributed() const { return sizes_; }

  /// Behind begin() of blocks: takes the memory of those that travel in other parts than those in which they
  /// are packed. Where one rank has none, all give the exchange up, before they need more. Calls by pairs
  /// take it when they need it. `overwrites`: blocks are received where others are sent from.
  void take_rooms(bool overwrites);
  /// After the end, which is an error then: whether the exchange was given up. Known alike to all ranks.
  [[nodiscard]] bool given_up() const { return poor_.has_value(); }
  /// And whether what is sent is still there on all ranks.
  [[nodiscard]] bool can_be_repeated() const { return given_up() && !overwritten_; }

  /// Whether everything that a rank sends can be copied before anything is received: one round, and no block
  /// is so long that it must stay with its sender.
  [[nodiscard]] static bool fits(const ShmBuffers& buffers, std::size_t bytes);
  [[nodiscard]] static bool fits(const ShmBuffers& buffers, std::span<const ShmBlock> send);

  /// Does what can be done now; true when all blocks are there and the own ones are not needed any more.
  /// Whoever claimed the buffers releases them then. Throws TransportError, then too, when a block could not
  /// be received: the exchange itself is always carried to its end, as others depend on it.
  bool advance();

  /// After the end, also of one that has failed: whether both ends of every block of all ranks have as many
  /// bytes. Known alike to all ranks, where all blocks of each are equal or the ends are compared.
  [[nodiscard]] bool sizes_agree() const { return !differ_ && sizes_ == 0; }

  /// Whether everybody has come to this exchange.
  [[nodiscard]] bool all_came() const { return at_ > 0 || stage_ == Stage::drain || pending_.empty(); }

  /// After the end of an exchange of blocks of any sizes on all ranks: how many bytes all sent together.
  [[nodiscard]] std::uint64_t total_bytes() const { return total_; }

  /// Members that have not shown this rank's blocks yet, at most `limit`; then those that still read.
  [[nodiscard]] std::vector<std::size_t> missing(std::size_t limit) const;

 private:
  enum class Stage : std::uint8_t { write, read, drain, done };
  /// A block of another rank that both ends move.
  struct Offered {
    std::uint32_t member;
    std::uint64_t address;  // there
    BlockPieces pieces;
    std::optional<std::size_t> others;  // pieces that its sender has taken, once none is left
    bool refused = false;               // the kernel did not show it
  };

  void begin_common(ShmBuffers& buffers);
  void begin_pairs(const ShmSide& send, const ShmSide& recv);
  void list_others(const ShmSide& side, std::vector<std::uint32_t>& members) const;
  void begin_rounds();
  void end_rounds();
  [[nodiscard]] bool advance_pairs();
  [[nodiscard]] bool send_short(std::uint32_t member);
  [[nodiscard]] bool take_short(std::uint32_t member, const PairLine& line);
  [[nodiscard]] bool send_parts(std::uint32_t member);
  [[nodiscard]] bool take_parts(std::uint32_t member);
  void plan_table();
  void compare_sizes();
  void copy_own();
  void write_round();
  void write_uniform(std::byte* buffer);
  void write_table(std::byte* buffer);
  void write_entry(std::size_t member, std::byte* buffer, std::size_t& next);
  void write_place(std::size_t member, shm_layout::BlockEntry& entry);
  void write_part(std::size_t member, std::byte* buffer, std::size_t& next);
  void await_round();
  bool read_round();
  [[nodiscard]] bool note_header(std::size_t member, const BufferHeader& header);
  void note_silence(std::size_t member) const;
  [[nodiscard]] bool is_like_own(const BufferHeader& header) const;
  [[nodiscard]] const std::byte* first_line(std::size_t member, const std::byte* buffer) const;
  [[nodiscard]] const std::byte* uniform_block(std::size_t member, const std::byte* buffer) const;
  void expect_blocks() const;
  bool drained();
  [[nodiscard]] bool tells_together() const;
  void take(std::size_t member, const std::byte* buffer);
  void deliver(std::size_t member, const std::byte* from, std::size_t bytes, std::size_t whole);
  void fetch(std::size_t member, BlockPlace place, std::size_t bytes);
  [[nodiscard]] bool attach(std::size_t member, std::uint64_t address, std::size_t bytes);
  [[nodiscard]] bool attach_parts(std::size_t member, std::uint64_t address, std::size_t bytes);
  void ask(std::size_t member, std::size_t bytes);
  void take_given();
  void serve_readers();
  [[nodiscard]] bool shares_blocks() const;
  [[nodiscard]] bool offer(std::size_t member, std::uint64_t address, std::size_t bytes);
  void move_offered();
  void take_pieces(Offered& block, bool all);
  [[nodiscard]] bool moved(const Offered& block);
  void help_readers();
  void give_pieces();
  [[nodiscard]] std::optional<BlockPlace> stays(std::size_t member) const;
  /// Whether a block that does not stay goes to its receiver's slot.
  [[nodiscard]] bool in_slot(std::size_t member) const {
    return member != buffers_->self() && buffers_->in_slot(send_[member].bytes);
  }
  [[nodiscard]] std::size_t grain(std::size_t member) const;
  void scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from);
  [[nodiscard]] bool gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to);
  template <class Step>
  bool packing(const Step& step);
  [[nodiscard]] std::byte* received_room(std::size_t member, std::size_t bytes);
  void unpack(std::size_t member, std::size_t got, const std::byte* from, std::size_t bytes,
              std::size_t whole);
  void fail(const TransportError& failure) noexcept;
  template <class Words>
  void fail_with(const Words& words) noexcept;
  [[nodiscard]] bool refuse(std::size_t member, std::size_t whole);
  void pass_over(std::size_t member, const std::byte* buffer);
  [[nodiscard]] bool is_packed_whole(std::size_t member) const;
  [[nodiscard]] const std::byte* packed(std::size_t member);
  /// The block in one piece of memory. Null: it could not be packed.
  [[nodiscard]] const std::byte* sent(std::size_t member) {
    return send_[member].data != nullptr ? send_[member].data : packed(member);
  }
  /// This rank's block for a member that reads it here.
  [[nodiscard]] std::size_t own_bytes(std::size_t member) const {
    return uniform_ ? bytes_ : send_[member].bytes;
  }
  [[nodiscard]] const std::byte* own_block(std::size_t member) {
    return uniform_ ? send_base_ + member * bytes_ : sent(member);
  }
  [[nodiscard]] std::size_t expected(std::size_t member) const {
    return uniform_ ? bytes_ : recv_[member].bytes;
  }
  [[nodiscard]] std::byte* place(std::size_t member) const {
    return uniform_ ? recv_base_ + member * bytes_ : recv_[member].data;
  }

  ShmBuffers* buffers_ = nullptr;
  Stage stage_ = Stage::done;
  bool uniform_ = false;
  const std::byte* send_base_ = nullptr;  // uniform
  std::byte* recv_base_ = nullptr;
  std::size_t bytes_ = 0;
  std::span<const ShmBlock> send_;  // else
  std::span<const ShmBlock> recv_;
  BlockPacker* packer_ = nullptr;

  std::uint64_t own_total_ = 0;
  std::uint64_t filled_ = 0;  // see BufferHeader
  std::uint64_t total_ = 0;
  std::uint64_t own_sizes_ = 0;  // table: of the own blocks, see compare_sizes()
  std::uint64_t sizes_ = 0;      // the sum of all ranks'
  bool differ_ = false;          // blocks that should be equal are not
  Compare compare_ = Compare::nothing;
  bool known_ = false;
  std::uint64_t own_pairs_ = 0;
  std::uint64_t all_pairs_ = 0;  // table: by all so far, see PairSlots::reported()

  bool by_pairs_ = false;
  std::uint64_t call_ = 0;              // its number among these
  bool own_waits_ = false;              // the block for this rank itself is still to be copied
  std::vector<std::uint32_t> sending_;  // members whose blocks are not all in slots
  std::vector<std::size_t> pair_sent_;  // bytes that are

  bool overlap_ = false;
  std::optional<BlockPlace> apart_;               // uniform: where all blocks stay
  std::vector<std::optional<BlockPlace>> stays_;  // else: where blocks stay that do
  bool slots_ = false;                            // uniform: whether blocks travel in slots
  std::size_t piece_ = 0;                         // uniform: bytes of a block that travel in one round
  std::size_t blocks_at_ = 0;                     // uniform: where blocks begin in a buffer
  std::uint32_t own_rounds_ = 1;                  // that the own blocks need
  std::uint32_t rounds_ = 1;                      // of the longest
  std::uint32_t own_flags_ = 0;                   // of BufferHeader::rounds
  std::optional<std::size_t> poor_;               // the last member that gives up
  bool overwritten_ = false;                      // what some rank sends
  std::uint32_t at_ = 0;                          // the current one, from 0
  std::uint64_t first_ = 0;                       // number of the first one
  bool own_direct_ = true;              // whether the block for this rank itself is copied past the buffers
  std::vector<std::uint32_t> pending_;  // members whose buffers of this round were not read yet
  std::vector<std::uint32_t> shown_;    // of these, those that can be read now
  std::vector<std::size_t> got_;        // bytes of each member that have arrived, also of refused blocks
  std::vector<std::byte*> sent_room_;   // blocks that were gathered because they travel in pieces
  std::vector<std::uint32_t> readers_;  // members that read own blocks from this rank's memory
  std::vector<Offered> offered_;        // of this round, until all of it is here
  std::vector<std::uint32_t> refused_;  // members whose blocks the kernel did not show, asked for
  std::vector<std::size_t> refused_bytes_;  // by member: of these blocks
  std::vector<std::size_t> given_;          // bytes that readers were given who have asked; empty: nobody has
  unsigned looks_ = 0;                      // for such readers
  bool fetched_ = false;                    // whether a block was read in another's memory
  std::optional<TransportError> failure_;   // the first
};

/// By an error with words: by a shorter one where there is no memory for them.
template <class Words>
void ShmExchange::fail_with(const Words& words) noexcept {
  try {
    fail(words());
  } catch (const std::bad_alloc&) {
    fail(TransportError::no_memory());
  }
}

}  // namespace tapa
