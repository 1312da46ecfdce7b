/// One image in the making, on one rank: everything allocated for its sizes, then step by step.
#pragma once

#include <memory>
#include <string>

#include "engine/engine.hpp"
#include "engine/estimates.hpp"
#include "engine/parallel_forward.hpp"
#include "engine/run_shape.hpp"
#include "engine/step_cache.hpp"
#include "engine/v_major_exchange.hpp"

namespace dit {

class ImageRun {
 public:
  /// `context` null: one rank; `half`: of the ranks that compute one branch, null when these are all ranks or
  /// one; `estimates` may know nothing yet and learns. All must outlive this. The options were checked.
  ImageRun(const PixelDitConfig& network, ExchangeContext* context, ExchangeContext* half,
           const GenerateOptions& options, StepEstimates& estimates);
  /// Before anything else; sends nothing. `model` in the options' type, on their device; must outlive this.
  void allocate(const PixelDit& model);

  /// One sampling step. Collective.
  [[nodiscard]] StepReport advance(int step);
  /// Forward passes of the first step with nothing overlapped, for the estimates: the graph of a full step,
  /// and with V-Major of a selective one, with them. Collective.
  [[nodiscard]] MeasuredGraphs measure();

  /// After the last step: the image, and the layers when they were recorded, on rank 0. Collective.
  void collect(GenerateResult& result);

 private:
  /// What the model is asked at a step.
  struct Question {
    at::Tensor sample;  // on the flow's scale
    double time = 0;
  };
  /// A graph and the order that was made for it.
  struct Plan {
    StepGraph graph;
    Order order;
    double active_fraction = -1;  // for which the order was made
    bool measuring = false;
  };
  struct Bytes {
    std::uint64_t slow = 0;
    std::uint64_t fast = 0;
  };

  void make_forward();
  void make_plans();
  void prepare_order(Plan& plan, double active_fraction);
  [[nodiscard]] ExecutionTimes run_forward(int step, const StepDecision& decision, const Question& question);
  void begin_pass(const StepGraph& graph, int step, const StepDecision& decision, const Question& question);
  [[nodiscard]] at::Tensor guided_velocity(StepReport& report);
  [[nodiscard]] at::Tensor computed_velocity(int step, const Question& question, StepReport& report);
  [[nodiscard]] bool reuses(int step, const Question& question);
  void translate_trace(std::size_t first_span);
  [[nodiscard]] Bytes sent() const;
  [[nodiscard]] bool sends_narrow_rows() const;
  [[nodiscard]] StepDecision decision_of(int step) const;
  [[nodiscard]] Question question_of(int step) const;
  [[nodiscard]] StepGraph measure(Plan& plan, const StepDecision& decision, int step, double active_fraction);
  [[nodiscard]] at::Tensor collect_rows(const at::Tensor& own) const;

  const PixelDit* model_ = nullptr;
  ExchangeContext* context_;
  ExchangeContext* half_;
  GenerateOptions options_;
  StepEstimates& estimates_;
  RunShape shape_;
  UlyssesLayout layout_;
  BranchPlan branches_;
  ExchangeContext* shared_ = nullptr;  // of the ranks that share a branch; null when that is one rank
  std::unique_ptr<VMajorExchange> v_major_;
  std::unique_ptr<WireRun> wire_;
  std::unique_ptr<ParallelForward> forward_;
  std::unique_ptr<StepCache> step_cache_;
  Plan full_;
  Plan selective_;
  std::unique_ptr<Sampler> sampler_;
  at::Tensor velocity_;  // the last one that was computed
  at::Tensor sample_;    // [1, own tokens, patch_elements], fp32
  Trace trace_;
};

}  // namespace dit
