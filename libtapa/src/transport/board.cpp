#include "transport/board.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/arena.hpp"
#include "transport/attach.hpp"
#include "transport/shm_segment.hpp"

namespace tapa {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLinePair = 128;  // processors fetch lines in pairs

// Regions begin on pages, so flags at equal offsets would all fall into one set of the first-level cache.
std::size_t stagger(std::size_t member) {
  return member % (kPage / kLinePair) * kLinePair;
}

// Where the slots begin, behind a line for each member.
constexpr std::size_t kSlotsAt = Board::kMostMembers * 64;

}  // namespace

// Each slot has a page of room for staggering.
std::size_t Board::region_bytes() {
  return kSlotsAt + 2 * (kSlotBytes + kPage);
}

Board::Board(std::size_t self, std::vector<std::byte*> regions, std::vector<Doorbell*> bells)
    : self_(self),
      regions_(std::move(regions)),
      bells_(std::move(bells)),
      order_(near_first(self, std::vector<int>(regions_.size()))) {}

std::vector<std::uint32_t> near_first(std::size_t self, std::span<const int> level) {
  std::vector<std::uint32_t> others;
  for (std::size_t i = 1; i < level.size(); ++i)
    others.push_back(static_cast<std::uint32_t>((self + i) % level.size()));
  std::ranges::stable_sort(others, {}, [&](std::uint32_t m) { return level[m]; });
  return others;
}

void Board::let_stay(std::vector<pid_t> pids, std::size_t from) {
  pids_ = std::move(pids);
  attach_from_ = from;
}

std::optional<BoardPlace> Board::stays(const std::byte* data, std::size_t bytes, std::size_t blocks) const {
  if (bytes < std::min(kMappedFrom, attach_from_) || pids_.empty()) return std::nullopt;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (bytes >= kMappedFrom) {
    if (const ArenaKey key = Arenas::of_process().find(data, bytes * blocks); key != 0)
      return BoardPlace{address, key};
  }
  if (always_stays(bytes)) return BoardPlace{address, BoardPlace::kPrivate};
  return std::nullopt;
}

const std::byte* Board::view(std::size_t member, BoardPlace place, std::size_t bytes) const {
  if (place.kind == BoardPlace::kPrivate) return nullptr;
  return ArenaViews::of_process().view(pids_[member], place.kind, place.at, bytes);
}

bool Board::attach(std::size_t member, std::uint64_t address, std::span<std::byte> to,
                   std::string& why) const {
  if (read_process(pids_[member], address, to)) return true;
  why = "process_vm_readv of " + std::to_string(to.size()) + " bytes from rank " + std::to_string(member) +
        " (process " + std::to_string(pids_[member]) + "): " + std::strerror(errno);
  return false;
}

BoardFlag* Board::slot(std::size_t member, std::uint64_t round) const {
  std::byte* const slots = regions_[member] + kSlotsAt + stagger(member);
  return reinterpret_cast<BoardFlag*>(slots + (round & 1) * (kSlotBytes + kPage));
}

std::atomic<std::uint64_t>& Board::read_by(std::size_t reader, std::size_t owner) const {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(regions_[reader] + owner * 64);
}

void Board::publish() {
  ++round_;
  slot(self_, round_)->round.store(round_, std::memory_order_release);
  if (!sleepers_.load(std::memory_order_relaxed)) return;
  for (std::size_t m = 0; m < bells_.size(); ++m) {
    if (m != self_) bells_[m]->ring();
  }
}

void Board::fetch_next(std::size_t bytes) const {
#if defined(__x86_64__)
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kMost = 8 * kLine;
  const auto* const slot = reinterpret_cast<const std::byte*>(this->slot(self_, round_ + 1));
  for (std::size_t at = 0; at <= bytes && at < kMost; at += kLine)
    asm volatile("prefetchw %0" ::"m"(slot[at]));
#else
  static_cast<void>(bytes);
#endif
}

}  // namespace tapa
