/// One image in the making, on one rank: everything allocated for its sizes, then step by step.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/engine.hpp"
#include "engine/estimates.hpp"
#include "engine/parallel_forward.hpp"
#include "engine/run_shape.hpp"
#include "engine/step_cache.hpp"

namespace dit {

class ImageRun {
 public:
  /// `context` null: one rank; `half`: of the ranks that compute one branch, null when these are all ranks or
  /// one; `estimates` may know nothing yet and learns. All must outlive this. The options were checked.
  ImageRun(const ModelShape& model, ExchangeContext* context, ExchangeContext* half,
           const GenerateOptions& options, StepEstimates& estimates);
  /// Before anything else; sends nothing. `model` in the options' type, on their device; must outlive this.
  void allocate(const Model& model);

  /// One sampling step. Collective.
  [[nodiscard]] StepReport advance(int step);
  /// A forward pass of the first step with nothing overlapped, for the estimates: graphs of all kinds of
  /// steps with them. Collective.
  [[nodiscard]] std::vector<StepKind> measure();

  /// After the last step: the image, and the layers when they were recorded, on rank 0. Collective.
  void collect(GenerateResult& result);

 private:
  /// What the model is asked at a step.
  struct Question {
    at::Tensor sample;  // on the flow's scale
    double time = 0;
  };
  struct Bytes {
    std::uint64_t slow = 0;
    std::uint64_t fast = 0;
  };

  void make_forward();
  void make_graph();
  void make_shares();
  void learn(int step, const std::vector<double>& step_seconds);
  void prepare_order(int step);
  [[nodiscard]] ExecutionTimes run_forward(int step, const Question& question);
  void begin_pass(int step, const Question& question);
  [[nodiscard]] double active_fraction(int step) const;
  [[nodiscard]] at::Tensor guided_velocity(StepReport& report);
  [[nodiscard]] at::Tensor computed_velocity(int step, const Question& question, StepReport& report);
  [[nodiscard]] bool reuses(int step, const Question& question);
  void note_policy(int step, StepReport& report);
  void require_finite(int step) const;
  [[nodiscard]] Bytes sent() const;
  [[nodiscard]] Question question_of(int step) const;
  [[nodiscard]] at::Tensor collect_rows(const at::Tensor& own) const;

  const Model* model_ = nullptr;
  ExchangeContext* context_;
  ExchangeContext* half_;
  GenerateOptions options_;
  StepEstimates& estimates_;
  RunShape shape_;
  UlyssesLayout layout_;
  BranchPlan branches_;
  ExchangeContext* shared_ = nullptr;  // of the ranks that share a branch; null when that is one rank
  std::unique_ptr<WireRun> wire_;
  std::unique_ptr<ActiveRows> active_rows_;
  std::unique_ptr<ParallelForward> forward_;
  std::unique_ptr<StepCache> step_cache_;
  StepGraph graph_;
  std::vector<TensorShares> shares_;  // of each step
  Order order_;
  std::optional<TensorShares> order_shares_;  // for which the order was made
  bool measuring_ = false;
  std::unique_ptr<Sampler> sampler_;
  at::Tensor velocity_;  // the last one that was computed
  at::Tensor sample_;    // [1, own tokens, patch_elements], fp32
  Trace trace_;
};

}  // namespace dit
