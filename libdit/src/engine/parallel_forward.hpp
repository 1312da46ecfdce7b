/// One forward pass of a model on this rank's tokens: what the steps of a graph do. Which units there are
/// (guidance branches) and in which order the steps run is the caller's; the result's bits depend on neither.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "layout/layout.hpp"
#include "models/model.hpp"
#include "schedule/execute.hpp"
#include "transfer/active_rows.hpp"
#include "transfer/tensor_transfer.hpp"
#include "transfer/wire_run.hpp"

namespace dit {

/// What stays the same for all forward passes of an image.
struct ForwardSetup {
  const Model* model = nullptr;
  ExchangeContext* context = nullptr;                  ///< null: one rank, nothing is exchanged
  const WireRun* wire = nullptr;                       ///< null: tensors travel as they are
  ActiveRows* active_rows = nullptr;                   ///< null: the policy has no rows of V-Major
  int first_branch = 0;                                ///< guidance branch of the first unit
  std::function<void(const Observation&)> observe;     ///< on one rank; may be empty
  std::vector<std::vector<std::int64_t>> unit_labels;  ///< all units have as many samples
  std::int64_t columns = 0;                            ///< of tokens in the image
  int groups = 1;                                      ///< head groups
  at::TensorOptions options;                           ///< compute and wire type, device
};

class ParallelForward : public StepWork {
 public:
  /// What changes from pass to pass.
  struct Pass {
    at::Tensor patches;  ///< [1, own tokens, patch_elements]
    double time = 0;
    int step = 0;
    bool keep_layers = false;  ///< keep the output of each layer
  };

  /// `layout`: of one unit, its batch the unit's samples. Allocates all buffers of the exchanges.
  ParallelForward(ForwardSetup setup, const UlyssesLayout& layout);

  /// Must be called before each execute(); the graph must outlive that.
  void begin(const StepGraph& graph, Pass pass);
  void compute(StepId step) override;
  void pack(StepId step) override;
  [[nodiscard]] ExchangeRequest start(StepId step, bool blocking) override;
  void arrived(StepId step) override;

  /// After execute: of each branch, [1, own tokens, patch_elements] as the model's type.
  [[nodiscard]] std::vector<at::Tensor> velocities() const;
  /// With keep_layers: of the first branch, per layer [own tokens, width].
  [[nodiscard]] const std::vector<at::Tensor>& kept_layers() const { return kept_layers_; }

  /// After execute: the first layer behind which some of this rank's numbers are not finite.
  [[nodiscard]] std::optional<int> first_not_finite() const;

  /// Fills in the slow_bytes of a graph's exchanges; with a wire policy the mean of all steps.
  void note_bytes(StepGraph& graph) const;

  /// With a wire policy: since the last call.
  [[nodiscard]] TransferTimes take_times();
  /// With a wire policy: rows that are remembered, by their age in steps.
  [[nodiscard]] std::vector<std::uint64_t> rows_by_age() const;

 private:
  static constexpr std::size_t kInputs = 3;  // query, key, value: as in AttentionTensor

  struct Group {
    Range heads;
    Range kv_heads;
    std::vector<std::int64_t> kv_of_head;
    // Of each tensor, all of them none on one rank.
    std::array<std::unique_ptr<TensorTransfer>, kAttentionTensors> transfers;
    std::array<at::Tensor, kAttentionTensors> sent;      // kept while it is under way
    std::array<at::Tensor, kAttentionTensors> received;  // output: the unit's
    at::Tensor attended;                                 // until it is sent
  };
  struct Unit {
    std::vector<std::int64_t> labels;
    std::vector<std::unique_ptr<SampleForward>> samples;  // one for each label
    std::array<at::Tensor, kInputs> projected;            // [samples, own tokens, heads, head_dim]
    at::Tensor output;                                    // attention's, in the sequence layout
    std::vector<Group> groups;
    std::vector<at::Tensor> velocity;
    std::vector<at::Tensor>
        sums;  // of the stream after each layer: looked at only where an image is not finite
  };

  [[nodiscard]] Unit make_unit(const std::vector<std::int64_t>& labels) const;
  [[nodiscard]] Group make_group(int group, const at::Tensor& output) const;
  [[nodiscard]] std::unique_ptr<TensorTransfer> make_transfer(const TransferPart& part) const;
  void prepare(Unit& unit) const;
  void project(Unit& unit, int layer, AttentionTensor tensor) const;
  void attend(Unit& unit, const Step& step) const;
  void finish(Unit& unit, int layer);
  void feed_forward(Unit& unit, const Step& step);
  void end_block(Unit& unit, int layer);
  void end(Unit& unit) const;

  [[nodiscard]] const Step& step_of(StepId id) const { return graph_->steps[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Unit& unit_of(const Step& step) { return units_[static_cast<std::size_t>(step.unit)]; }
  [[nodiscard]] Group& group_of(const Step& step) {
    return unit_of(step).groups[static_cast<std::size_t>(step.group)];
  }
  [[nodiscard]] TransferPlace place_of(const Step& step) const;
  [[nodiscard]] at::Tensor source_of(const Step& step);
  void arrived_alone(const Step& step);

  ForwardSetup setup_;
  UlyssesLayout layout_;
  int rank_ = 0;
  std::uint64_t first_layout_id_;    // of each group: query, key, value, output; the same in all units
  std::vector<double> most_scores_;  // per layer
  std::vector<Unit> units_;
  const StepGraph* graph_ = nullptr;
  std::vector<std::string> labels_;
  Pass pass_;
  std::vector<at::Tensor> kept_layers_;
};

}  // namespace dit
