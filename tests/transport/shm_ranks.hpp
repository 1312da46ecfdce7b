/// @file
/// Ranks that exchange blocks over shared buffers, as threads of one process or as processes of their own.
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "run/shm_exchange.hpp"
#include "transport/shm_segment.hpp"

namespace tapa::shm_test {

using Bytes = std::vector<std::byte>;

/// A byte that names its place.
std::byte value(std::size_t src, std::size_t dst, std::size_t at, int call);

/// Regions that exchanges use together, one behind the other, after others have made so many rounds.
struct Region {
  std::size_t first = 0;
  std::size_t members = 0;
  std::uint64_t rounds = 0;
};

/// Memory for the regions and doorbells of some ranks.
class Memory {
 public:
  explicit Memory(std::size_t units) : units_(units) {
    bytes_ = units * (ShmBuffers::region_bytes() + sizeof(Doorbell) + 4096);
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    base_ = static_cast<std::byte*>(p);
  }
  ~Memory() { munmap(base_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Doorbell& bell(std::size_t unit) {
    return reinterpret_cast<Doorbell*>(base_ + units_ * ShmBuffers::region_bytes())[unit];
  }

  std::byte* region(std::size_t unit) { return base_ + unit * ShmBuffers::region_bytes(); }

  std::unique_ptr<ShmBuffers> buffers(std::size_t self) { return buffers(self, {0, units_, 0}); }
  std::unique_ptr<ShmBuffers> buffers(std::size_t self, const Region& region) {
    std::vector<std::byte*> regions;
    std::vector<Doorbell*> bells;
    for (std::size_t unit = region.first; unit < region.first + region.members; ++unit) {
      regions.push_back(this->region(unit));
      bells.push_back(&bell(unit));
    }
    return std::make_unique<ShmBuffers>(self, std::move(regions), std::move(bells), region.rounds,
                                        region.first);
  }

 private:
  std::size_t units_;
  std::size_t bytes_ = 0;
  std::byte* base_ = nullptr;
};

/// Sizes of blocks by source, destination and call.
using Sizes = std::function<std::size_t(std::size_t, std::size_t, int)>;

void finish(ShmExchange& exchange);

/// Blocks of one rank in a call, each in memory of its own; every third is not "in one piece".
class Rank final : public BlockPacker {
 public:
  Rank(std::unique_ptr<ShmBuffers> buffers, Sizes sizes, bool packed)
      : buffers_(std::move(buffers)), sizes_(std::move(sizes)), packed_(packed) {}

  /// Blocks from others may be so many bytes longer than those that are sent.
  void expect_more(std::size_t bytes) { more_ = bytes; }

  /// Whether both ends know the sizes of blocks, so that calls may go by pairs.
  void know_sizes(bool known) { known_ = known; }

  /// Whether no block can be packed from now on.
  void refuse_to_pack(bool refuses) { refuses_ = refuses; }

  /// Whether this rank has failed before a call begins, from now on: it packs and unpacks nothing.
  void begin_failed(bool failed) { failed_ = failed; }

  /// Whether rank 1 overwrites what it sends.
  void overwrite(bool overwrites) { overwrites_ = overwrites; }

  /// Whether memory is taken before a call, and refused.
  void take_rooms(bool refused) { rooms_taken_ = true, rooms_refused_ = refused; }

  /// Told when a call begins, and again when it has ended. Numbers of ranks are known before.
  void watch(std::function<void(bool)> under_way) { under_way_ = std::move(under_way); }

  [[nodiscard]] bool given_up() const { return exchange_.given_up(); }
  [[nodiscard]] bool can_be_repeated() const { return exchange_.can_be_repeated(); }

  /// Blocks of the sizes of this call, then of one size; the number of wrong bytes.
  std::size_t call(int number);
  std::size_t uniform_call(int number, std::size_t bytes, bool in_place);

  void gather(std::size_t member, std::size_t begin, std::size_t bytes, std::byte* to) override;
  void scatter(std::size_t member, std::size_t begin, std::size_t bytes, const std::byte* from) override;
  void copy(std::size_t member) override;
  std::byte* room(std::size_t member, bool sent, std::size_t bytes) override;
  void release_rooms() override { ++releases_; }

  ShmBuffers& buffers() { return *buffers_; }

 private:
  template <class Begin>
  void exchange(const Begin& begin);
  void fill(std::vector<ShmBlock>& send, std::vector<ShmBlock>& recv);
  void require_sound() const;
  void count_wrong_part(std::size_t whole, std::size_t unit, std::size_t begin, std::size_t bytes);

  std::size_t more_ = 0;
  bool refuses_ = false;
  bool known_ = false;
  bool failed_ = false;
  bool rooms_taken_ = false;
  bool rooms_refused_ = false;
  bool overwrites_ = false;
  int number_ = 0;  // of the call

  std::size_t releases_ = 0;     // of rooms
  std::size_t wrong_parts_ = 0;  // that no datatype could be divided into
  std::unique_ptr<ShmBuffers> buffers_;
  Sizes sizes_;
  bool packed_;
  std::vector<Bytes> out_, in_, rooms_;
  std::function<void(bool)> under_way_ = [](bool) {};
  ShmExchange exchange_;
};

/// Runs `body` as every member of a region, in threads; the sum of what it returns. Notes the rounds that
/// were made.
std::size_t in_threads(Memory& memory, Region& region, const Sizes& sizes, bool packed,
                       const std::function<std::size_t(Rank&)>& body);
/// In memory of their own.
std::size_t in_threads(std::size_t members, const Sizes& sizes, bool packed,
                       const std::function<std::size_t(Rank&)>& body);

/// For calls of equal blocks alone.
std::size_t no_sizes(std::size_t src, std::size_t dst, int call);

/// One rank sends half of all bytes, most blocks are empty, sizes change from call to call.
std::size_t skewed(std::size_t src, std::size_t dst, int call);

}  // namespace tapa::shm_test
