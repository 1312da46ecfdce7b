#include "predict/coding_gain.hpp"

#include <algorithm>
#include <limits>

namespace dit {
namespace {

void count(std::vector<ModeShare>& modes, const WireMode& mode) {
  const auto found =
      std::find_if(modes.begin(), modes.end(), [&](const ModeShare& known) { return known.mode == mode; });
  if (found != modes.end()) {
    found->share += 1;
  } else {
    modes.push_back({mode, 1});
  }
}

}  // namespace

std::vector<ModeShare> modes_of_level(const WirePlan& plan, int level) {
  std::vector<ModeShare> modes;
  double blocks = 0;
  for (int tensor = 0; tensor < kAttentionTensors; ++tensor) {
    for (int layer = 0; layer < plan.shape().layers; ++layer) {
      for (int step = 0; step < plan.shape().steps; ++step) {
        for (const int branch : {0, 1}) {
          count(modes, plan.mode(static_cast<AttentionTensor>(tensor), level, layer, step, branch));
          ++blocks;
        }
      }
    }
  }
  for (ModeShare& mode : modes) {
    mode.share /= blocks;
  }
  return modes;
}

double bytes_share(const std::vector<ModeShare>& modes, WireElement element) {
  double bits = 0;
  for (const ModeShare& mode : modes) {
    bits += mode.share * bits_of(mode.mode, element);
  }
  return bits / (8.0 * static_cast<double>(bytes_of(element)));
}

double CodingGain::break_even() const {
  return codec_seconds > 0 ? std::max(0.0, 1 - share) / codec_seconds
                           : std::numeric_limits<double>::infinity();
}

}  // namespace dit
