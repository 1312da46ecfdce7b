/// Whether a policy is worth its coding on the links of a level. Pure.
///
/// Of each byte that a rank would send over a level as it is, all ranks sending at once:
///
///     saved = (1 - share) * link_seconds        share: of the bytes that the policy sends
///
///     spent = codec_seconds                     coding at the sender and decoding at the receiver
///
/// What is hidden behind computing is no gain, and coding is never hidden: the policy pays for sure where it
/// saves more than it spends and exchanges are exposed. On links faster than (1 - share) / codec_seconds
/// bytes a second and rank it only costs.
#pragma once

#include <array>
#include <vector>

#include "wire/block_codec.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

/// What share of a run's blocks travels in a mode.
struct ModeShare {
  WireMode mode;
  double share = 0;
};
/// The modes of a level, over all tensors, layers, steps and branches, each once; the shares' sum is 1.
/// `text`: the share of text tokens in what travels of each tensor.
[[nodiscard]] std::vector<ModeShare> modes_of_level(const WirePlan& plan, int level,
                                                    const std::array<double, kAttentionTensors>& text = {});
/// Of the bytes that full blocks would take.
[[nodiscard]] double bytes_share(const std::vector<ModeShare>& modes, WireElement element);

struct CodingGain {
  double share = 1;          ///< of the bytes that the policy sends
  double link_seconds = 0;   ///< of a byte on the level's links
  double codec_seconds = 0;  ///< of a byte of the tensor
  [[nodiscard]] bool pays() const { return codec_seconds <= (1 - share) * link_seconds; }
  /// Bytes a second and rank: on faster links it does not pay; infinite where coding costs nothing.
  [[nodiscard]] double break_even() const;
};

}  // namespace dit
