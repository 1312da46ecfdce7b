/// @file
/// What a persistent operation has to itself as long as it lives.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/comm_state.hpp"
#include "run/small_reduce.hpp"

namespace tapa {

/// Tags, and memory where ranks share a node. As they free requests when they like, what is free is agreed.
class PersistentWindow {
 public:
  /// Asks for the next one.
  void begin();
  /// Goes on asking, in the order of calls; true: `tags` are taken. Throws CallError, with out_of_tags().
  [[nodiscard]] bool step(CommState& state, TagWindow& tags);
  /// Whether none was left; alike on all ranks.
  [[nodiscard]] bool out_of_tags() const { return out_of_tags_; }
  /// The memory; null: there is none.
  [[nodiscard]] ShmBuffers* buffers() const { return buffers_.get(); }

  /// Gives the memory back.
  void leave(const CommState& state);
  /// Forgets what is being asked; it can be asked no more.
  void give_up() { free_.give_up(); }

 private:
  void ask(CommState& state);

  SmallReduce free_;       // which windows and which region
  std::size_t block_ = 0;  // of windows, that is being asked for
  std::size_t asked_ = 0;  // blocks so far
  bool out_of_tags_ = false;
  ArenaRegion region_;
  std::unique_ptr<ShmBuffers> buffers_;
};

}  // namespace tapa
