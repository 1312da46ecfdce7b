/// Images from a model, on one rank or many: noise, steps, guidance, the parallel forward pass, and the report.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "layout/layout.hpp"
#include "sampling/sampler.hpp"
#include "schedule/execute.hpp"
#include "schedule/order.hpp"
#include "weights/model_files.hpp"
#include "wire/v_major.hpp"

namespace dit {

/// How the two branches of classifier-free guidance are computed.
enum class GuidanceMode {
  batched,     ///< both in one exchange
  sequential,  ///< one after the other (what `pipelined` overlaps)
  parallel     ///< one branch per half of the ranks; needs an even number of them
};
[[nodiscard]] GuidanceMode parse_guidance_mode(const std::string& name);
[[nodiscard]] const char* to_string(GuidanceMode mode);

struct GenerateOptions {
  int label = 0;
  std::uint64_t seed = 0;
  std::int64_t height = 128;
  std::int64_t width = 128;
  SamplerOptions sampler;
  double guidance = 2.0;  ///< 1: one branch only
  GuidanceMode guidance_mode = GuidanceMode::batched;
  Schedule schedule = Schedule::v_first;
  int head_groups = 1;
  std::optional<VMajorPolicy> v_major;         ///< none: exact
  std::optional<std::uint64_t> cache_budget;   ///< bytes per rank
  BeyondHeads beyond_heads = BeyondHeads::gather_kv;
  at::ScalarType dtype = at::kFloat;           ///< compute and wire type
  at::Device device = at::kCPU;
  bool record_layers = false;  ///< keep each layer's output of the last step, for `dit check`
};

/// Of one step of one rank.
struct StepReport {
  double seconds = 0;
  double compute_seconds = 0;
  double exposed_seconds = 0;
  std::uint64_t slow_bytes = 0;   ///< sent beyond the node
  std::uint64_t fast_bytes = 0;   ///< sent within the node, to other ranks
  double active_fraction = 1;     ///< of rows on slow links
  int oldest_row = 0;             ///< age in steps of the oldest cached row used
};

struct GenerateReport {
  std::vector<StepReport> steps;
  double seconds = 0;           ///< first step's start to last step's end, on this rank
  CacheBytes cache;
  std::uint64_t compute_threads = 1;
};

struct GenerateResult {
  at::Tensor image;    ///< [channels, height, width], fp32, CPU, model units; on rank 0 (empty elsewhere)
  GenerateReport report;
  std::vector<at::Tensor> layers;  ///< record_layers: per layer [tokens, width] of the conditional branch, rank 0
  Trace trace;
  StepGraph graph;     ///< of the trace's step ids (the full step's graph)
};

/// Called on rank 0 after each step.
using Progress = std::function<void(int step, int steps, const StepReport&)>;

/// Sizes fixed and everything planned; nothing about it is a global.
class Engine {
 public:
  /// `context` may be null: one rank. Collective. Throws std::invalid_argument naming option, value and what was
  /// expected, the same on all ranks.
  Engine(LoadedModel model, ExchangeContext* context);
  ~Engine();
  Engine(Engine&&) noexcept;

  /// Collective. What does not fit (sizes, ranks, budgets) is refused before anything is allocated or sent.
  [[nodiscard]] GenerateResult generate(const GenerateOptions& options, const Progress& progress = {});
  /// Checks options as generate does; throws the same.
  void check(const GenerateOptions& options) const;
  /// Cache bytes of this rank for these options.
  [[nodiscard]] CacheBytes cache_for(const GenerateOptions& options) const;
  /// The step graph with estimates (compute from measured or given rates, exchange from bytes and link rates).
  [[nodiscard]] const LoadedModel& model() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dit
