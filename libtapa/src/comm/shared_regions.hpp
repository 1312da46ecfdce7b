/// @file
/// The parts of the node's memory that exchanges of one communicator use.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "comm/setup.hpp"
#include "transport/shm_buffers.hpp"

namespace tapa {

/// How exchanges in them go; alike on all ranks but for `attach_from`.
struct RegionManners {
  std::size_t attach_from = 0;  ///< bytes; shorter blocks are copied twice
  bool together = false;        ///< see ShmBuffers::tell_together()
  bool sleepers = false;        ///< see ShmBuffers::expect_sleepers()
};

/// One region is everybody's; persistent operations, started in any order, have one each. Not thread-safe.
class SharedRegions {
 public:
  /// `membership` is borrowed; `rank`: this rank's in the communicator.
  void set(const Membership& membership, int rank, const RegionManners& manners) {
    membership_ = &membership;
    rank_ = rank;
    manners_ = manners;
    if (membership.region.count > 0) common_ = buffers(membership.region);
  }
  /// Gives everything back but what operations have; returns the rounds that were used of the common region.
  std::uint64_t close() {
    const std::uint64_t rounds = common_ ? common_->round() : 0;
    common_.reset();
    return rounds;
  }

  [[nodiscard]] bool available() const { return common_ != nullptr; }
  /// Precondition: available().
  [[nodiscard]] ShmBuffers& common() const { return *common_; }
  void expect_sleepers(bool sleepers) {
    manners_.sleepers = sleepers;
    if (common_) common_->expect_sleepers(sleepers);
  }

  /// Of another region, which rank 0 has taken.
  [[nodiscard]] std::unique_ptr<ShmBuffers> buffers(const ArenaRegion& region) const {
    const World& world = *membership_->world;
    const NodeArena& arena = *world.arena;
    std::vector<std::byte*> units;
    std::vector<Doorbell*> bells;
    std::vector<pid_t> pids;
    std::vector<int> distances;
    const std::size_t members = membership_->in_world.size();
    units.reserve(members);
    bells.reserve(members);
    pids.reserve(members);
    distances.reserve(members);
    for (std::size_t member = 0; member < members; ++member) {
      const int mate = membership_->in_world[member];
      units.push_back(arena.unit(region.first + member));
      bells.push_back(arena.bell(static_cast<std::size_t>(membership_->on_node[member])));
      pids.push_back(world.process_of(mate));
      distances.push_back(world.distance_to(mate));
    }
    const auto self = static_cast<std::size_t>(rank_);
    auto made =
        std::make_unique<ShmBuffers>(self, std::move(units), std::move(bells), region.rounds, region.first);
    made->set_order(near_first(self, distances));
    made->tell_together(manners_.together);
    made->expect_sleepers(manners_.sleepers);
    made->let_stay(std::move(pids), manners_.attach_from);
    return made;
  }

 private:
  const Membership* membership_ = nullptr;
  int rank_ = 0;
  RegionManners manners_;
  std::unique_ptr<ShmBuffers> common_;
};

}  // namespace tapa
