#include "comm/shared_regions.hpp"

#include <utility>

namespace tapa {

void SharedRegions::set(const Membership& membership, int rank, const RegionManners& manners) {
  membership_ = &membership;
  rank_ = rank;
  manners_ = manners;
  if (membership.region.count > 0) common_ = buffers(membership.region);
}

std::uint64_t SharedRegions::close() {
  const std::uint64_t rounds = common_ ? common_->round() : 0;
  common_.reset();
  return rounds;
}

void SharedRegions::expect_sleepers(bool sleepers) {
  manners_.sleepers = sleepers;
  if (common_) common_->expect_sleepers(sleepers);
}

std::unique_ptr<ShmBuffers> SharedRegions::buffers(const ArenaRegion& region) const {
  const World& world = *membership_->world;
  const NodeArena& arena = *world.arena();
  std::vector<std::byte*> units;
  std::vector<Doorbell*> bells;
  std::vector<pid_t> pids;
  std::vector<int> distances;
  for (std::size_t member = 0; member < membership_->in_world.size(); ++member) {
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

}  // namespace tapa
