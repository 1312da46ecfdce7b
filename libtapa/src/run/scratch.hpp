/// @file
/// Memory for the length of a call. What is taken from the system and given back for each call costs a page
/// fault for each of its pages, each time; so some is kept for the next call.
#pragma once

#include <cstddef>
#include <memory>

namespace tapa {

/// Owns memory, from what earlier ones gave back where one is large enough. Thread-safe; may be nested.
class Scratch {
 public:
  Scratch() = default;
  /// Uninitialised. Throws std::bad_alloc.
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&& other) noexcept;

  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  explicit operator bool() const { return memory_ != nullptr; }

  /// The most that is kept while no call uses it, in all; 32 MiB unless said. Bytes.
  static void keep_at_most(std::size_t bytes);
  /// Bytes kept now.
  [[nodiscard]] static std::size_t kept();

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace tapa
