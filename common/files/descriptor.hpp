/// @file
/// A handle of what the system knows by a number: files and sockets.
#pragma once

#include <unistd.h>

#include <utility>

namespace files {

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
  /// 0, or the reason why what was written may not have arrived.
  int close() noexcept { return is_open() ? ::close(std::exchange(number_, -1)) : 0; }

 private:
  int number_ = -1;
};

}  // namespace files
