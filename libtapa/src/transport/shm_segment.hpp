/// @file
/// A rank's shared memory: a doorbell, one incoming ring for each rank of the node and its regions of the
/// shared buffers. It is an
/// anonymous file (memfd) that peers open through /proc, so nothing is left behind whatever happens.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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

/// A mapping of a range of a segment. Movable; unmaps on destruction.
class Mapping {
 public:
  Mapping() = default;
  /// Maps `bytes` of `fd` from `offset`; ok() tells whether it worked.
  Mapping(int fd, std::size_t offset, std::size_t bytes, int protection = PROT_READ | PROT_WRITE);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  [[nodiscard]] bool ok() const { return address_ != nullptr; }
  [[nodiscard]] void* address() const { return address_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The own segment. Pages are only used once touched, so its size costs nothing.
class ShmSegment {
 public:
  /// Room for rings from `ranks` ranks of at most kMaxCapacity bytes and for `extra` bytes behind them. Empty
  /// when the kernel refuses; `why` then says so.
  static std::optional<ShmSegment> create(int ranks, std::size_t extra, std::string& why);

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

  static constexpr std::size_t kHeader = 4096;  ///< the page of the doorbell and the number
  static constexpr std::size_t kMaxCapacity = std::size_t{1} << 15;
  /// Bytes of a slot for one ring, whole pages, and where slot `index` begins.
  static std::size_t slot_bytes(std::size_t capacity);
  static std::size_t slot_offset(std::size_t index, std::size_t capacity);

 private:
  ShmSegment(int fd, std::uint64_t number) : fd_(fd), number_(std::make_unique<std::uint64_t>(number)) {}
  int fd_ = -1;
  std::unique_ptr<std::uint64_t> number_;  // its address is told to others
};

}  // namespace tapa
