/// @file
/// The parts of the node's memory that exchanges of one communicator use.
#pragma once

#include <cstdint>
#include <memory>
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
  void set(const Membership& membership, int rank, const RegionManners& manners);
  /// Gives everything back but what operations have; returns the rounds that were used of the common region.
  std::uint64_t close();

  [[nodiscard]] bool available() const { return common_ != nullptr; }
  /// Precondition: available().
  [[nodiscard]] ShmBuffers& common() const { return *common_; }
  void expect_sleepers(bool sleepers);

  /// Of another region, which rank 0 has taken.
  [[nodiscard]] std::unique_ptr<ShmBuffers> buffers(const ArenaRegion& region) const;

 private:
  const Membership* membership_ = nullptr;
  int rank_ = 0;
  RegionManners manners_;
  std::unique_ptr<ShmBuffers> common_;
};

}  // namespace tapa
