#include "comm/mean_block.hpp"

#include <bit>

#include "autotune/autotuner.hpp"

namespace tapa {

// The sum is started at calls 0, 1, 2, 4, 8, ... and every 16th. Call 0 waits for its own sum, later ones for
// that of an earlier call, which is complete as a rule: what is agreed costs no round trip.
std::optional<std::size_t> MeanBlock::agree(const MessageSpace& space, int tag, int rank, int ranks,
                                            std::uint64_t blocks, std::size_t own_bytes) {
  const auto start = [&] {
    const std::uint64_t own = own_bytes;
    constexpr Combine how = Combine::sum;
    sum_.start(space, tag, rank, ranks, {&own, 1}, {&how, 1});
  };
  if (calls_ == 0 && !sum_.pending()) start();
  if (sum_.pending()) {
    if (!sum_.test()) return std::nullopt;
    mean_ = size_class_of(static_cast<std::size_t>(sum_.result()[0] / blocks));
  }
  if (calls_ > 0 && (std::has_single_bit(calls_) || calls_ % 16 == 0)) start();
  ++calls_;
  return mean_;
}

void MeanBlock::note(std::optional<std::uint64_t> bytes, int size) {
  if (!bytes) {
    ++by_mpi_;
    return;
  }
  shared_ = *bytes / (static_cast<std::uint64_t>(size) * static_cast<std::uint64_t>(size));
  by_mpi_ = 0;
}

}  // namespace tapa
