/// @file
/// A file of a rank that others of its node can map: an anonymous one (memfd), which they open through /proc.
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

/// The own file. Pages are only used once touched, so its size costs nothing.
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
