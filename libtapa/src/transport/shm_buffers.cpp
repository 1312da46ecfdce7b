#include "transport/shm_buffers.hpp"

#include <algorithm>
#include <utility>

#include "transport/arena.hpp"
#include "transport/attach.hpp"
#include "transport/cache_lines.hpp"
#include "transport/memory_file.hpp"
#include "transport/shm_segment.hpp"

namespace tapa {

namespace {

/// Of each slot when a region has one for each other member.
std::size_t bytes_of_slot(std::size_t slots_bytes, std::size_t members) {
  return odd_lines(slots_bytes / std::max<std::size_t>(1, members - 1));
}

std::vector<std::byte*> behind(std::vector<std::byte*> regions, std::size_t bytes) {
  for (std::byte*& region : regions) region += bytes;
  return regions;
}

/// Regions begin on pages, so sequence numbers at equal offsets would all fall into one set of the
/// first-level cache, of so many bytes.
std::vector<std::byte*> staggered(std::vector<std::byte*> regions, std::size_t place, std::size_t set) {
  constexpr std::size_t kLinePair = 128;  // processors fetch lines in pairs
  for (std::byte*& region : regions) region += place++ % (set / kLinePair) * kLinePair;
  return regions;
}

}  // namespace

// Each buffer has room for staggering.
std::size_t ShmBuffers::region_bytes() {
  return kPairsAt + PairSlots::kBytes;
}

ShmBuffers::ShmBuffers(std::size_t self, std::vector<std::byte*> regions, std::vector<Doorbell*> bells,
                       std::uint64_t rounds, std::size_t place)
    : self_(self),
      before_(rounds),
      regions_(std::move(regions)),
      buffers_(staggered(behind(regions_, kBuffersAt), place, kSets)),
      bells_(std::move(bells)),
      order_(near_first(self, std::vector<int>(regions_.size()))),
      slot_bytes_{bytes_of_slot(kSlots[0].bytes, regions_.size()),
                  bytes_of_slot(kSlots[1].bytes, regions_.size()),
                  bytes_of_slot(kSlots[2].bytes, regions_.size())},
      round_(rounds),
      // Who has made no round has sent nothing by pairs.
      pairs_(self, behind(regions_, kPairsAt), rounds) {}

std::vector<std::uint32_t> near_first(std::size_t self, std::span<const int> level) {
  std::vector<std::uint32_t> others;
  others.reserve(level.size());
  for (std::size_t i = 1; i < level.size(); ++i)
    others.push_back(static_cast<std::uint32_t>((self + i) % level.size()));
  const auto is_near = [&](std::uint32_t m) { return level[m] == level[others.front()]; };
  if (std::ranges::all_of(others, is_near)) return others;
  std::ranges::stable_sort(others, {}, [&](std::uint32_t m) { return level[m]; });
  // Those at one distance are the same for all ranks of a group: each begins with another one.
  for (auto first = others.begin(); first != others.end();) {
    const int distance = level[*first];
    const auto last =
        std::find_if(first, others.end(), [&](std::uint32_t m) { return level[m] != distance; });
    if (first != others.begin()) {
      std::sort(first, last);
      const auto nearer = [&](std::uint32_t m) { return m < self; };
      const auto place = std::count_if(others.begin(), first, nearer);  // in the own group
      std::rotate(first, first + place % (last - first), last);
    }
    first = last;
  }
  return others;
}

void ShmBuffers::let_stay(std::vector<pid_t> pids, std::size_t from) {
  pids_ = std::move(pids);
  static_cast<void>(Arenas::of_process());  // made now, as an exchange asks for no memory
  static_cast<void>(ArenaViews::of_process());
  attach_from_.store(from, std::memory_order_relaxed);
}

std::optional<BlockPlace> ShmBuffers::stays(const std::byte* data, std::size_t bytes,
                                            std::size_t blocks) const {
  if (bytes < std::min(kMappedFrom, attach_from_.load(std::memory_order_relaxed)) || pids_.empty())
    return std::nullopt;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (bytes >= kMappedFrom) {
    if (const ArenaKey key = Arenas::of_process().find(data, bytes * blocks); key != 0)
      return BlockPlace{address, key};
  }
  if (always_stays(bytes)) return BlockPlace{address, BlockPlace::kPrivate};
  return std::nullopt;
}

const std::byte* ShmBuffers::view(std::size_t member, BlockPlace place, std::size_t bytes) const {
  if (place.kind == BlockPlace::kPrivate) return nullptr;
  return ArenaViews::of_process().view(pids_[member], place.kind, place.at, bytes);
}

bool ShmBuffers::attach(std::size_t member, std::uint64_t address, std::span<std::byte> to) const {
  return read_process(pids_[member], address, to);
}

bool ShmBuffers::push(std::size_t member, std::uint64_t address, std::span<const std::byte> from) const {
  return write_process(pids_[member], address, from);
}

void ShmBuffers::tell_moved(std::size_t reader, std::size_t count, bool there) const {
  shared_block(reader, self_).tell_moved(count, there);
  ring(reader);
}

ShmBuffers::Line& ShmBuffers::line(std::size_t writer, std::size_t reader) const {
  static_assert(sizeof(Line) <= 64);
  return *reinterpret_cast<Line*>(regions_[writer] + reader * 64);
}

void ShmBuffers::tell_read(std::size_t owner) const {
  line(self_, owner).read.store(round_, std::memory_order_release);
  ring(owner);
}

void ShmBuffers::tell_all_read() const {
  line(self_, self_).read.store(round_, std::memory_order_release);
  ring_others();
}

bool ShmBuffers::was_read(std::size_t reader, std::uint64_t round) const {
  return line(reader, reader).read.load(std::memory_order_acquire) >= round ||
         line(reader, self_).read.load(std::memory_order_acquire) >= round;
}

std::byte* ShmBuffers::piece(std::size_t owner, std::size_t reader) const {
  return regions_[owner] + kPiecesAt + reader * piece_bytes();
}

// Numbers of earlier users of the regions are below all that come.
void ShmBuffers::ask(std::size_t owner) const {
  std::atomic<std::uint64_t>& asked = line(self_, owner).asked;
  const std::uint64_t last = std::max(asked.load(std::memory_order_relaxed), round_ << kRoundShift);
  asked.store(last + 1, std::memory_order_release);
  ring(owner);
}

const std::byte* ShmBuffers::given(std::size_t owner) const {
  const bool there = line(owner, self_).given.load(std::memory_order_acquire) ==
                     line(self_, owner).asked.load(std::memory_order_relaxed);
  return there ? piece(owner, self_) : nullptr;
}

std::byte* ShmBuffers::asked(std::size_t reader) const {
  const std::uint64_t asked = line(reader, self_).asked.load(std::memory_order_acquire);
  const std::uint64_t given = line(self_, reader).given.load(std::memory_order_relaxed);
  const bool wants = asked > given && asked > ((before_ + 1) << kRoundShift);
  return wants ? piece(self_, reader) : nullptr;
}

void ShmBuffers::give(std::size_t reader) const {
  line(self_, reader)
      .given.store(line(reader, self_).asked.load(std::memory_order_relaxed), std::memory_order_release);
  ring(reader);
}

void ShmBuffers::publish() {
  ++round_;
  buffer(self_, round_)->sequence.store(round_, std::memory_order_release);
  ring_others();
}

void ShmBuffers::wake(std::size_t member) const {
  bells_[member]->ring();
}

void ShmBuffers::ring_others() const {
  if (!expects_sleepers()) return;
  for (std::size_t m = 0; m < bells_.size(); ++m) {
    if (m != self_) bells_[m]->ring();
  }
}

void ShmBuffers::populate(std::byte* region) {
  for (const Part& part : kShortBlocks) {
    for (std::size_t at = part.at; at < part.at + part.bytes; at += page_bytes()) {
      // Others may write here already.
      reinterpret_cast<std::atomic<std::uint64_t>*>(region + at)->fetch_or(0, std::memory_order_relaxed);
    }
  }
}

// The kernel maps pages that are there together with their neighbours: 16, from a place of its own choice on.
void ShmBuffers::map_others() {
  for (const std::byte* const region : regions_) {
    for (const Part& part : kShortBlocks) {
      for (const std::size_t at : {part.at, part.at + part.bytes - 1})
        static_cast<void>(*reinterpret_cast<const volatile std::byte*>(region + at));
    }
  }
}

void ShmBuffers::fetch_next(std::size_t bytes) const {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kMost = 8 * kLine;
  const auto* const buffer = reinterpret_cast<const std::byte*>(this->buffer(self_, round_ + 1));
  for (std::size_t at = 0; at <= bytes && at < kMost; at += kLine) expect_to_write(buffer + at);
}

}  // namespace tapa
