/// How much attention's tensors repeat themselves from step to step, and what each wire mode would lose.
/// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "wire/block_codec.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

/// Modes whose error is measured, from many bits to none.
[[nodiscard]] const std::vector<WireMode>& profiled_modes();

/// One tensor of one layer in one step.
struct RedundancyCell {
  double change = 0;     ///< relative L2 distance to the step before
  double cosine = 1;     ///< of the angle to the step before
  double expected = 0;   ///< relative L2 distance to what momentum expects
  double token_low = 0;  ///< of the tokens' own relative changes: a tenth are below, half, nine tenths
  double token_median = 0;
  double token_high = 0;
  std::vector<double>
      errors;  ///< relative L2, of each profiled mode, if it had been used in all steps before
};

class RedundancyProfile {
 public:
  RedundancyProfile(int layers, int steps, float momentum);

  /// Of each step in turn: `values` are rows of `row` numbers. Of long tensors some of the rows are taken.
  void add(AttentionTensor tensor, int layer, int step, std::span<const float> values, std::size_t row);

  [[nodiscard]] const RedundancyCell& cell(AttentionTensor tensor, int layer, int step) const;
  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] int steps() const { return steps_; }
  [[nodiscard]] float momentum() const { return momentum_; }

 private:
  struct Track {  // of a tensor of a layer
    std::vector<float> before, before_that;
    struct Memory {
      std::vector<std::uint16_t> value;
      std::vector<std::uint8_t> digits, change;
    };
    std::vector<Memory> memories;  // of each mode
  };
  [[nodiscard]] std::size_t index(AttentionTensor tensor, int layer) const;
  [[nodiscard]] std::size_t place(AttentionTensor tensor, int layer, int step) const;
  void measure(RedundancyCell& cell, Track& track, const std::vector<float>& now, std::size_t row,
               int step) const;
  void code(RedundancyCell& cell, Track& track, const std::vector<float>& now, std::size_t row) const;

  int layers_, steps_;
  float momentum_;
  std::vector<Track> tracks_;
  std::vector<RedundancyCell> cells_;
};

}  // namespace dit
