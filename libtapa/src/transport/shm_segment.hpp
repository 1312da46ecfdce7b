/// @file
/// A rank's shared memory: an incoming ring for each rank of the node, a doorbell and its regions of the
/// shared buffers. It is an anonymous file (memfd) that peers open through /proc.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/mapping.hpp"
#include "transport/memory_file.hpp"
#include "transport/shm_ring.hpp"

namespace tapa {

/// Where a rank sleeps until somebody has written to it or has read what it wrote.
struct Doorbell {
  alignas(64) std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> sleeping;

  /// Wakes the owner when it sleeps. Call after the change that it should see.
  void ring();
  /// Sleeps until rung or for `microseconds`, unless it was rung since `seen` was read from `rings`.
  void sleep(std::uint32_t seen, long microseconds);
};

/// Where everything lies in a segment's file, in bytes:
///     number | a ring from each member | doorbell | channel 0 | channel 1 | ...
/// so that a peer needs one mapping: from its ring to the end of channel 0. Channels are whole pages.
struct SegmentLayout {
  std::size_t members = 1;        ///< ranks of the node
  std::size_t capacity = 0;       ///< of a ring
  std::size_t channel_bytes = 0;  ///< that one needs
  std::size_t channels = 0;       ///< that the file has room for; may be none
  std::size_t page = 0;           ///< of the system

  static constexpr std::size_t kUnit = 128;  ///< processors fetch lines in pairs
  [[nodiscard]] std::size_t ring_bytes() const { return whole_units(ShmRing::bytes_for(capacity), kUnit); }
  /// The ring that the i-th member writes.
  [[nodiscard]] std::size_t ring(std::size_t i) const { return kUnit + i * ring_bytes(); }
  [[nodiscard]] std::size_t doorbell() const { return ring(members); }
  /// From one channel to the next.
  [[nodiscard]] std::size_t channel_step() const { return whole_units(channel_bytes, page); }
  [[nodiscard]] std::size_t channel(std::size_t n) const {
    return whole_units(doorbell() + kUnit, page) + n * channel_step();
  }
  [[nodiscard]] std::size_t file_bytes() const { return channel(channels); }
  /// Where the mapping of the i-th member begins, and where all of these and that of the owner, which is of
  /// the whole beginning, end.
  [[nodiscard]] std::size_t view_begin(std::size_t i) const { return ring(i) / page * page; }
  [[nodiscard]] std::size_t view_end() const { return channel(channels > 0 ? 1 : 0); }
};

/// The own segment. Pages are only used once touched, so its size costs nothing.
class ShmSegment {
 public:
  /// A file of one page, which others can find. Empty when the kernel refuses; `why` then says so.
  static std::optional<ShmSegment> create(std::string& why);
  /// Makes it `bytes` bytes long.
  [[nodiscard]] bool resize(std::size_t bytes, std::string& why) const {
    return set_file_bytes(fd_, bytes, why);
  }

  ShmSegment(ShmSegment&& other) noexcept;
  ShmSegment& operator=(ShmSegment&& other) noexcept;
  ~ShmSegment();

  /// How peers on the same node find it: "pid:fd:number:address", where the number is random and stands in
  /// the segment too, so that the same pid and fd on another host are not taken for it. At the address in the
  /// process stands the number as well.
  [[nodiscard]] std::string token() const;
  [[nodiscard]] int fd() const { return fd_; }

  /// Closes the file; mappings stay. Peers that have not opened it cannot any more.
  void close_file();

  /// Opens a peer's segment by its token; -1 when that is not possible. The caller closes it.
  static int open_token(const std::string& token);

  /// The process of a token, and whether the kernel lets us read its memory.
  static pid_t process(const std::string& token);
  static bool readable(const std::string& token);

 private:
  ShmSegment(int fd, std::uint64_t number) : fd_(fd), number_(std::make_unique<std::uint64_t>(number)) {}
  int fd_ = -1;
  std::unique_ptr<std::uint64_t> number_;  // its address is told to others
};

}  // namespace tapa
