/// @file
/// Messages between each two members of a node's communicator, for calls in which both ends know who has
/// something for whom: nobody looks at anything of a pair that is silent, and nobody waits for others.
///
/// Each pair has some slots for either direction, in the region of the receiver, which its messages use in
/// turn. Messages of a direction are numbered by both ends; nothing else says which slot is next. The writer
///   1. waits until the slot's last message is taken (acquire), if it has not seen yet that this one or a
///      later one was,
///   2. writes the message and stores its number (release).
/// The reader
///   1. waits for that number (acquire),
///   2. reads the message and stores its number as taken (release).
/// So no message is read before it is written, and none is overwritten before it is read. What is taken has a
/// line of its own, at which the writer looks only when it has come round: a slot's line goes to its reader
/// and back, and nothing more moves between caches.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/cache_lines.hpp"

namespace tapa {

/// The head of a slot. Zero-initialised and never constructed.
struct PairLine {
  static constexpr std::size_t kRoom = 104;
  std::atomic<std::uint64_t> sequence;  ///< number of the message; written last, read first
  std::uint64_t call;                   ///< in which it was sent
  std::uint64_t whole;                  ///< bytes of the block of which the message is a part
  std::array<std::byte, kRoom> part;    ///< when it is that short
};
static_assert(sizeof(PairLine) == 128);  // processors fetch lines in pairs
/// The reader's line of a direction.
struct PairTaken {
  alignas(64) std::atomic<std::uint64_t> taken;  ///< number of the last message that was read
};

/// One member's view. Not thread-safe, but for awaited().
class PairSlots {
 public:
  static constexpr std::size_t kMostMembers = 1024;
  static constexpr std::size_t kDataBytes = std::size_t{256} << 10;
  /// What each region has for it: who has taken what, the slots' heads, their data.
  static constexpr std::size_t kBytes = kMostMembers * (sizeof(PairTaken) + sizeof(PairLine)) + kDataBytes;

  /// `parts[m]`: member m's. `users`: a number that is higher for each user of these regions.
  PairSlots(std::size_t self, std::vector<std::byte*> parts, std::uint64_t users);

  /// Bytes of a message at most; PairLine::kRoom or more.
  [[nodiscard]] std::size_t slot_bytes() const { return slot_bytes_; }

  /// Asks for the lines that the next message to a member needs.
  void expect_writing(std::size_t to, std::size_t bytes) const {
    const Sent& sent = sent_[to];
    expect_to_write(&slot(sent, sent.number + 1));
    if (!has_room(sent, bytes)) __builtin_prefetch(&taken(self_, to));
  }
  /// Asks for that of the next message from a member.
  void expect_reading(std::size_t from) const {
    __builtin_prefetch(&slot(got_[from], got_[from].number + 1));
  }

  /// Writer: where the next message of so many bytes belongs; null: the slot is not free yet. Then send() it.
  [[nodiscard]] std::byte* room(std::size_t to, std::size_t bytes) {
    const Sent& sent = sent_[to];
    if (!has_room(sent, bytes) && !look_for_room(to, bytes)) return nullptr;
    const std::uint64_t number = sent.number + 1;
    return bytes <= PairLine::kRoom ? slot(sent, number).part.data() : data(self_, to, number);
  }
  void send(std::size_t to, std::uint64_t call, std::uint64_t whole) {
    Sent& sent = sent_[to];
    PairLine& line = slot(sent, ++sent.number);
    line.call = call;
    line.whole = whole;
    line.sequence.store(sent.number, std::memory_order_release);
    expect_to_write(&slot(sent, sent.number + 1));
  }

  /// Reader: the next message, or null; where its bytes lie. Then take() it.
  [[nodiscard]] const PairLine* arrived(std::size_t from) const {
    const Got& got = got_[from];
    const PairLine& line = slot(got, got.number + 1);
    return line.sequence.load(std::memory_order_acquire) == got.number + 1 ? &line : nullptr;
  }
  [[nodiscard]] const std::byte* part(std::size_t from, std::size_t bytes) const {
    const std::uint64_t number = got_[from].number + 1;
    return bytes <= PairLine::kRoom ? slot(got_[from], number).part.data() : data(from, self_, number);
  }
  void take(std::size_t from) {
    Got& got = got_[from];
    got.line->taken.store(++got.number, std::memory_order_release);
  }

  /// Calls through tables before calls go by pairs: the first ones of these find all their pages new, which
  /// costs more than some calls gain.
  static constexpr unsigned kBefore = 31;

  // Whether calls go by pairs. A call through tables tells all members how many messages there were, so all
  // of them decide alike; each so many calls one goes through tables again.
  /// Whether the next call does.
  [[nodiscard]] bool chosen() const { return left_ > 0; }
  /// It does; its number.
  [[nodiscard]] std::uint64_t begin() {
    --left_;
    return ++calls_;
  }
  /// What this member tells in the next call through tables, of so many messages.
  [[nodiscard]] std::uint64_t reported(std::uint64_t messages) const { return unfit_ ? kUnfit : messages; }
  /// This member had a block that does not fit into a slot.
  void note_long() { unfit_ = true; }
  /// It expected something of a member that sent nothing, which MPI lets pass: by pairs it would wait for
  /// ever. Told in the next call through tables.
  void note_silence() { silence_ = true; }
  /// Such a call has ended: what all have reported, and how many bytes they sent.
  void note_tables(std::uint64_t reported, std::uint64_t bytes);
  /// Bytes that all members sent in the last such call.
  [[nodiscard]] std::uint64_t last_total() const { return last_total_; }

  /// A member that a call waits for.
  struct Awaited {
    std::uint64_t call;  ///< 0: none does
    std::size_t member;
  };
  [[nodiscard]] Awaited awaited() const {
    const std::uint64_t seen = awaited_.load(std::memory_order_relaxed);
    return {seen / kMostMembers, seen % kMostMembers};
  }
  void await(const Awaited& awaited) {
    awaited_.store(awaited.call * kMostMembers + awaited.member, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned kCalls = 15;    // between two calls through tables
  static constexpr unsigned kBarred = 128;  // calls through tables after what does not fit
  static constexpr std::uint64_t kUnfit = std::uint64_t{1} << 32;
  static constexpr std::size_t kLeastMembers = 4;
  static constexpr std::size_t kLinesAt = kMostMembers * sizeof(PairTaken);
  static constexpr std::size_t kDataAt = kLinesAt + kMostMembers * sizeof(PairLine);
  static constexpr std::size_t kMostSlots = 8;  ///< of a direction; powers of two
  static constexpr std::size_t kDataSlots = 4;  ///< of messages that are longer than a line

  /// Messages to a member.
  struct Sent {
    std::uint64_t number = 0;
    std::uint64_t taken = 0;  // of them, as far as this member has looked
    PairLine* lines = nullptr;
  };
  /// And from one.
  struct Got {
    std::uint64_t number = 0;
    PairLine* lines = nullptr;
    PairTaken* line = nullptr;
  };
  template <class Direction>
  [[nodiscard]] PairLine& slot(const Direction& direction, std::uint64_t number) const {
    return direction.lines[number & (slots_ - 1)];
  }
  /// Whether the slot of the next message to a member is known to be free, or turns out to be.
  [[nodiscard]] bool has_room(const Sent& sent, std::size_t bytes) const {
    const std::size_t slots = bytes <= PairLine::kRoom ? slots_ : std::min(slots_, kDataSlots);
    return sent.number < sent.taken + slots;
  }
  [[nodiscard]] bool look_for_room(std::size_t to, std::size_t bytes);
  /// Of a direction, among those of a part. Parts begin on pages: what a member writes in several should not
  /// fall into one set of its cache.
  [[nodiscard]] std::size_t place(std::size_t from, std::size_t to) const {
    return from + to < parts_.size() ? from + to : from + to - parts_.size();
  }
  [[nodiscard]] PairTaken& taken(std::size_t from, std::size_t to) const {
    return reinterpret_cast<PairTaken*>(parts_[to])[place(from, to)];
  }
  [[nodiscard]] PairLine* lines(std::size_t from, std::size_t to) const {
    return reinterpret_cast<PairLine*>(parts_[to] + kLinesAt) + place(from, to) * slots_;
  }
  [[nodiscard]] std::byte* data(std::size_t from, std::size_t to, std::uint64_t number) const {
    return parts_[to] + kDataAt + (place(from, to) * kDataSlots + number % kDataSlots) * slot_bytes_;
  }

  std::size_t self_;
  std::vector<std::byte*> parts_;
  std::size_t slots_;       // of a direction
  std::size_t slot_bytes_;  // of data
  std::vector<Sent> sent_;  // to each member
  std::vector<Got> got_;    // from each member
  std::uint64_t calls_ = 0;
  unsigned left_ = 0;
  unsigned barred_ = kBefore + 1;
  bool unfit_ = false;
  bool silence_ = false;
  std::uint64_t last_total_ = 0;
  std::atomic<std::uint64_t> awaited_{0};
};

}  // namespace tapa
