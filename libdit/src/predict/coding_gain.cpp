#include "predict/coding_gain.hpp"

#include <algorithm>
#include <limits>

namespace dit {
namespace {

void count(std::vector<ModeShare>& modes, const WireMode& mode, double share) {
  if (share == 0) {
    return;
  }
  const auto found =
      std::find_if(modes.begin(), modes.end(), [&](const ModeShare& known) { return known.mode == mode; });
  if (found != modes.end()) {
    found->share += share;
  } else {
    modes.push_back({mode, share});
  }
}

}  // namespace

std::vector<ModeShare> modes_of_level(const WirePlan& plan, int level,
                                      const std::array<double, kAttentionTensors>& text) {
  std::vector<ModeShare> modes;
  double blocks = 0;
  for (int tensor = 0; tensor < kAttentionTensors; ++tensor) {
    for (int layer = 0; layer < plan.shape().layers; ++layer) {
      for (int step = 0; step < plan.shape().steps; ++step) {
        for (const int branch : {0, 1}) {
          const auto of = static_cast<AttentionTensor>(tensor);
          const double of_text = text[static_cast<std::size_t>(tensor)];
          count(modes, plan.mode(of, level, layer, step, branch, TokenPart::text), of_text);
          count(modes, plan.mode(of, level, layer, step, branch, TokenPart::image), 1 - of_text);
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
