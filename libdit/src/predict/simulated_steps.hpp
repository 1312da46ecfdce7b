/// Step times of published models on simulated machines: exchanges as the simulator has them, computing from
/// rates, each way to exchange beside the flat one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "predict/model_cost.hpp"
#include "predict/published_models.hpp"
#include "predict/replay.hpp"
#include "predict/simulated_machine.hpp"
#include "predict/step_mix.hpp"

namespace dit {

/// What a row of the table adds to the flat baseline.
struct Way {
  std::string name;
  bool tapa = true;
  Schedule schedule = Schedule::v_first;
  bool v_major = false;
  double scatter_share = 1;  ///< of the bytes of Q, K and V that cross nodes
  double output_share = 1;
  double codec_bytes = 0;  ///< that an end reads and writes for each byte which crosses nodes uncoded
};
/// flat, +TAPA, +V-First, pipelined, V-Major and two policies.
[[nodiscard]] const std::vector<Way>& ways();

struct SimulatedImage {
  std::int64_t pixels = 1536;  ///< a side; a multiple of the model's token_pixels
  int batch = 1;
  int steps = 50;  ///< of sampling, for V-Major's mean
};

struct SimulatedRow {
  int nodes = 1;
  int ranks = 1;
  const Way* way = nullptr;  ///< of ways()
  Prediction step;
  double ratio_to_flat = 1;
};

/// Model and machine must outlive this.
class SimulatedSteps {
 public:
  /// Throws std::invalid_argument for an image whose tokens are not whole. Of `rates` what computes counts.
  SimulatedSteps(const SimulatedImage& image, const PublishedModel& model, SimulatedMachine& machine,
                 const MachineRates& rates);

  /// Simulates what the ways need on so many nodes, then predicts them; the flat one first.
  [[nodiscard]] std::vector<SimulatedRow> rows(int nodes);

 private:
  [[nodiscard]] ForwardShape shape_of(int ranks) const;
  [[nodiscard]] double exchange_seconds(StepRole role, const ForwardShape& shape, int nodes, bool tapa,
                                        double share) const;
  [[nodiscard]] double codec_seconds(const Way& way, StepRole role, const ForwardShape& shape) const;
  [[nodiscard]] Prediction predicted(const Way& way, const ForwardShape& shape, int nodes,
                                     bool selective) const;

  SimulatedImage image_;
  const PublishedModel& model_;
  SimulatedMachine& machine_;
  MachineRates rates_;
  StepMix mix_;
};

}  // namespace dit
