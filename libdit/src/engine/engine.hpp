/// Images from a model, on one rank or many: noise, steps, guidance, the parallel forward pass, and the
/// report.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/guidance.hpp"
#include "exchange/exchange.hpp"
#include "layout/layout.hpp"
#include "predict/choose_order.hpp"
#include "sampling/sampler.hpp"
#include "schedule/execute.hpp"
#include "schedule/order.hpp"
#include "weights/model_files.hpp"
#include "wire/coded_blocks.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

/// One of attention's tensors of one unit, [samples, tokens, heads, head_dim].
struct Observation {
  AttentionTensor tensor = AttentionTensor::query;
  int layer = 0;
  int step = 0;
  int unit = 0;
  at::Tensor values;
};

struct GenerateOptions {
  int label = 0;
  std::uint64_t seed = 0;
  std::int64_t height = 128;
  std::int64_t width = 128;
  SamplerOptions sampler;
  double guidance = 2.0;  ///< 1: one branch only
  /// None: sequential for `pipelined`, which overlaps the two branches; batched for the others.
  std::optional<GuidanceMode> guidance_mode;
  Schedule schedule = Schedule::v_first;
  int head_groups = 1;
  /// None: exact. Also exact where no peer is on a level of its rules: then nothing is remembered either.
  /// fp32 and bf16 only.
  std::optional<WirePolicy> wire;
  std::optional<std::uint64_t> cache_budget;  ///< bytes per rank
  /// A step whose first block's input changed by less than this (relative L1, added up since the last step
  /// that was computed) takes the last velocity instead of a forward pass; 0: none does. Approximate.
  double step_cache = 0;
  /// Of timing: forward passes are made in these steps only, ascending from 0, and the others take the last
  /// velocity; empty: in all.
  std::vector<int> only_steps;
  BeyondHeads beyond_heads = BeyondHeads::gather_kv;
  at::ScalarType dtype = at::kFloat;  ///< compute and wire type
  at::Device device = at::kCPU;
  std::function<void(const Observation&)>
      observe;                 ///< one rank only: called with each tensor that others would be sent
  bool record_layers = false;  ///< keep each layer's output of the last step, for `dit check`
};

/// Of one step of one rank.
struct StepReport {
  double seconds = 0;
  double compute_seconds = 0;
  double exposed_seconds = 0;
  std::uint64_t slow_bytes = 0;  ///< sent beyond the node
  std::uint64_t fast_bytes = 0;  ///< sent within the node, to other ranks
  double active_fraction = 1;    ///< V-Major: of rows of Q, K and V on slow links
  int oldest_row = 0;            ///< age in steps of the oldest row that was used
  bool reused = false;           ///< no forward pass was made (step cache, only_steps)
  int guarded = 0;               ///< wire policy: exchanges that its guard sent in bf16
  double codec_seconds = 0;      ///< wire policy: coding and decoding, a part of compute_seconds
};

struct GenerateReport {
  std::vector<StepReport> steps;
  double seconds = 0;  ///< first step's start to last step's end, on this rank
  CacheBytes cache;
  std::uint64_t compute_threads = 1;
  std::vector<std::uint64_t> rows_by_age;  ///< wire policy that leaves rows behind: after the last step
};

struct GenerateResult {
  at::Tensor image;  ///< [channels, height, width], fp32, CPU, model units; on rank 0 (empty elsewhere)
  GenerateReport report;
  std::vector<at::Tensor>
      layers;  ///< record_layers: per layer [tokens, width] of the conditional branch, rank 0
  Trace trace;
  StepGraph graph;  ///< of the trace's step ids
};

/// An image that has become NaN or infinite. Steps and layers count from 0.
class NotFinite : public std::runtime_error {
 public:
  /// `layer` none: no layer's output was; it came after the last one.
  NotFinite(int step, std::optional<int> layer, const GenerateOptions& options);
  [[nodiscard]] int step() const { return step_; }
  [[nodiscard]] std::optional<int> layer() const { return layer_; }

 private:
  int step_;
  std::optional<int> layer_;
};

/// Called on rank 0 after each step.
using Progress = std::function<void(int step, int steps, const StepReport&)>;

/// A model on some ranks. Compute threads: DIT_THREADS, or this rank's share of its node's cores; they are
/// set for the calling thread by the constructor and by each generate(), never by loading the library.
///
/// Errors: what one rank finds wrong before a step runs is thrown on all of them. An exception in the middle
/// of an image (a peer that is gone) is thrown where it happened: the caller ends the job
/// (ExchangeContext::abort_job).
class Engine {
 public:
  /// `context` may be null: one rank. It must outlive the engine. Collective. Throws std::invalid_argument
  /// naming tensor or option, value and what was expected, the same on all ranks; also when ranks were given
  /// other models.
  Engine(LoadedModel model, ExchangeContext* context);
  ~Engine();
  Engine(Engine&&) noexcept;

  /// Collective. What does not fit (sizes, ranks, budgets) is refused before anything is allocated or sent;
  /// also options that differ between ranks. Throws NotFinite on a rank whose part of the image is. With
  /// `pipelined` the first step of the first image of a size runs without overlap, to be measured.
  [[nodiscard]] GenerateResult generate(const GenerateOptions& options, const Progress& progress = {});
  /// Checks options as generate does; throws the same (std::length_error for a cache over its budget). Not
  /// collective.
  void check(const GenerateOptions& options) const;
  /// Cache bytes of this rank for these options.
  [[nodiscard]] CacheBytes cache_for(const GenerateOptions& options) const;
  /// Measures the steps of the image's first forward pass on these ranks, nothing overlapped, and tells what
  /// all its steps will take by what the wire policy sends in them; the same on all ranks. Collective.
  [[nodiscard]] std::vector<StepKind> measure(const GenerateOptions& options);
  [[nodiscard]] const LoadedModel& model() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dit
