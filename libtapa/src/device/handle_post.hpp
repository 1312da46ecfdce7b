/// @file
/// Handles of memory, which are file descriptors, from every rank to the other ranks of its node: by messages
/// of Unix sockets, the one way that needs no right over the other process. Knows no CUDA.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "device/agreement.hpp"

namespace tapa::device {

/// An open file, closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  void close() noexcept;
  int number_ = -1;
};

/// A piece of memory that other processes can map.
struct Handle {
  Descriptor file;
  std::uint64_t bytes = 0;
};

/// Every rank's handles, in its order; this rank's own come back, too. A rank that has none, or whose handles
/// the system did not carry here, all of them, has an empty list. Collective, also for ranks without handles
/// and for those of other nodes. Throws DeviceError when the caller's allgather fails.
[[nodiscard]] std::vector<std::vector<Handle>> post_handles(const Agreement& agreement,
                                                            std::vector<Handle> mine);

}  // namespace tapa::device
