/// @file
/// What a persistent operation has to itself as long as it lives.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "comm/comm_state.hpp"
#include "run/error.hpp"
#include "run/small_reduce.hpp"

namespace tapa {

/// Tags, and memory where ranks share a node. As they free requests when they like, what is free is agreed.
class PersistentWindow {
 public:
  /// Asks for the next one.
  void begin() {
    asked_ = 0;
    out_of_tags_ = false;
  }
  /// Goes on asking, in the order of calls; true: `tags` are taken. Throws CallError, with out_of_tags().
  [[nodiscard]] bool step(CommState& state, TagWindow& tags) {
    if (!free_.pending()) ask(state);
    if (!free_.test()) return false;
    const auto result = free_.result();
    region_ = {static_cast<std::uint32_t>(result[1]), static_cast<std::uint32_t>(result[2]), result[3]};
    const auto parts = state.parts();
    if (result[0] != 0) {
      tags = parts->order.take_persistent(block_, result[0]);
      if (region_.count != 0) buffers_ = parts->regions.buffers(region_);
      return true;
    }
    const std::size_t blocks = parts->order.blocks();
    if (++asked_ < blocks) return false;
    out_of_tags_ = true;
    if (region_.count != 0) arena_of(state).leave(std::exchange(region_, {}), region_.rounds);
    refuse(MPI_ERR_OTHER, "no message tags are left: ", CallOrder::kBlock * blocks,
           " persistent requests of this communicator live, expected fewer");
  }
  /// Whether none was left; alike on all ranks.
  [[nodiscard]] bool out_of_tags() const { return out_of_tags_; }
  /// The memory; null: there is none.
  [[nodiscard]] ShmBuffers* buffers() const { return buffers_.get(); }

  /// Gives the memory back.
  void leave(const CommState& state) {
    if (buffers_) arena_of(state).leave(std::exchange(region_, {}), buffers_->round());
    buffers_.reset();
  }
  /// Forgets what is being asked; it can be asked no more.
  void give_up() { free_.give_up(); }

 private:
  static NodeArena& arena_of(const CommState& state) { return *state.membership.world->arena; }

  /// Rank 0 takes the memory.
  void ask(CommState& state) {
    constexpr std::uint64_t any = ~std::uint64_t{0};
    std::uint64_t numbers[] = {0, any, any, any};
    int tag = 0;
    {
      const auto parts = state.parts();
      block_ = (parts->order.start_block() + asked_) % parts->order.blocks();
      tag = parts->order.free_tag();
      numbers[0] = parts->order.free_windows(block_);
      if (state.rank == 0 && parts->regions.available() && region_.count == 0)
        region_ = arena_of(state).take(static_cast<std::size_t>(state.size)).value_or(ArenaRegion{});
    }
    if (state.rank == 0) {
      numbers[1] = region_.first;
      numbers[2] = region_.count;
      numbers[3] = region_.rounds;
    }
    constexpr std::array how{Combine::bit_and, Combine::bit_and, Combine::bit_and, Combine::bit_and};
    free_.start(state.space, tag, state.rank, state.size, numbers, how);
  }

  SmallReduce free_;       // which windows and which region
  std::size_t block_ = 0;  // of windows, that is being asked for
  std::size_t asked_ = 0;  // blocks so far
  bool out_of_tags_ = false;
  ArenaRegion region_;
  std::unique_ptr<ShmBuffers> buffers_;
};

}  // namespace tapa
