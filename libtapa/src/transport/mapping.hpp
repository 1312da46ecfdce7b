/// @file
/// Mappings of shared files, and how many of them this library may hold in a process that is not its own.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <mutex>
#include <string>

namespace tapa {

/// A mapping of a range of a file. Movable; unmaps on destruction.
class Mapping {
 public:
  Mapping() = default;
  /// Maps `bytes` of `fd` from `offset`; ok() tells whether it worked.
  Mapping(int fd, std::size_t offset, std::size_t bytes, int protection = PROT_READ | PROT_WRITE);
  /// Maps the last page of `before`, which ends on a page, and `bytes` bytes of the same file behind it. The
  /// file need not be open any more.
  [[nodiscard]] static Mapping behind(const Mapping& before, std::size_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  [[nodiscard]] bool ok() const { return address_ != nullptr; }
  [[nodiscard]] std::byte* address() const { return static_cast<std::byte*>(address_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  Mapping(void* address, std::size_t bytes);
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Most mappings and bytes of address space that may be held together. The system limits both for each
/// process, and where the limit is reached the program's own memory fails. Thread-safe.
class MapBudget {
 public:
  MapBudget(std::size_t mappings, std::size_t bytes) : most_mappings_(mappings), most_bytes_(bytes) {}
  /// That of this process: a tenth of what the system allows it. Never destroyed.
  static MapBudget& of_process();

  /// False, with the reason in `why`, when so much is not left.
  [[nodiscard]] bool take(std::size_t mappings, std::size_t bytes, std::string& why);
  void give(std::size_t mappings, std::size_t bytes);

  /// Bytes that could be taken now.
  [[nodiscard]] std::size_t left_bytes();
  [[nodiscard]] std::size_t most_mappings() const { return most_mappings_; }

 private:
  const std::size_t most_mappings_;
  const std::size_t most_bytes_;
  std::mutex mutex_;
  std::size_t mappings_ = 0;  // held now
  std::size_t bytes_ = 0;
};

/// A part of the process's budget; given back on destruction. Movable.
class MapShare {
 public:
  MapShare() = default;
  MapShare(MapShare&& other) noexcept;
  MapShare& operator=(MapShare&& other) noexcept;
  ~MapShare();
  /// Takes more, or nothing; see MapBudget::take().
  [[nodiscard]] bool grow(std::size_t mappings, std::size_t bytes, std::string& why);

 private:
  std::size_t mappings_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace tapa
