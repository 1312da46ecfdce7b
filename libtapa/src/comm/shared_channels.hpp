/// @file
/// Which of a node's shared buffers persistent operations use: each needs some of its own, as they may be
/// started in any order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/shm_node.hpp"

namespace tapa {

/// Channel 0 is everybody's. Which of the others is free must be agreed between the ranks, as they free
/// requests when they like. Not thread-safe.
class SharedChannels {
 public:
  /// `node`: null where the ranks of the communicator do not all share memory. Borrowed.
  void set(ShmNode* node) { node_ = node; }

  [[nodiscard]] bool available() const { return node_ != nullptr; }
  /// Precondition: available().
  [[nodiscard]] ShmBuffers& common() const { return *node_->buffers(0); }

  /// A bit for each channel that is free here.
  [[nodiscard]] std::uint64_t free() const;
  /// Takes the lowest set bit of `free`, what all ranks have free, which is not 0.
  [[nodiscard]] std::size_t take(std::uint64_t free);
  void give_back(std::size_t channel) { used_ &= ~(std::uint64_t{1} << channel); }
  [[nodiscard]] ShmBuffers& buffers(std::size_t channel) const { return *node_->buffers(channel); }

 private:
  ShmNode* node_ = nullptr;
  std::uint64_t used_ = 1;
};

}  // namespace tapa
