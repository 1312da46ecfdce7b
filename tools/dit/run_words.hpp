/// @file
/// Options of all commands that run a model: from words to what the engine takes.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "engine/engine.hpp"
#include "weights/model_files.hpp"
#include "wire/v_major.hpp"

namespace CLI {
class App;
}

namespace dit::tool {

/// The command line, as words; empty or absent: the model's own value, or what suits the ranks.
struct RunWords {
  std::string model;
  std::string label = "0";
  std::uint64_t seed = 0;
  std::string size;
  int steps = 0;
  std::optional<double> guidance;
  std::string guidance_mode = "auto";
  std::string sampler;
  std::optional<double> shift;
  std::string schedule = "auto";
  std::string policy = "exact";
  std::string coding = "auto";
  int head_groups = 0;
  std::optional<std::uint64_t> cache_budget;
  std::string beyond_heads = "gather";
  std::string dtype = "fp32";
  std::string device = "cpu";
};

/// What is run (model, class, seed, size, steps, guidance, sampler).
void declare_model(CLI::App& app, RunWords& words);
/// Whether presets are left off where coding does not pay.
void declare_coding(CLI::App& app, RunWords& words);
/// How it is run (schedule, policy, coding, budget, types).
void declare_run(CLI::App& app, RunWords& words);

/// What approximates: V-Major, a wire policy, or nothing.
struct PolicyChoice {
  std::optional<VMajorPolicy> v_major;
  std::string preset;  ///< of wire_preset_names(), as the run's number of steps makes it; empty: none
  std::optional<WirePolicy> wire;
  double step_cache = 0;
  [[nodiscard]] bool exact() const {
    return !v_major && preset.empty() && (!wire || wire->rules.empty()) && step_cache == 0;
  }
  /// options.sampler.steps counts.
  void apply(GenerateOptions& options) const;
};
/// "exact", "paper" or "v-major[:...]", a preset's name, or a file of a wire policy (a path with a slash or
/// one that ends with .json); any of them with "+step-cache:THRESHOLD". Throws std::invalid_argument; for
/// files also std::runtime_error.
[[nodiscard]] PolicyChoice parse_policy(const std::string& text);
[[nodiscard]] std::string policy_text(const PolicyChoice& policy);
[[nodiscard]] std::string policy_text(const GenerateOptions& options);
/// For tables: without V-Major's settings.
[[nodiscard]] std::string short_text(const PolicyChoice& policy);

/// A guidance mode or nothing for "auto".
[[nodiscard]] std::optional<GuidanceMode> parse_mode_or_auto(const std::string& text);
/// A schedule or nothing for "auto".
[[nodiscard]] std::optional<Schedule> parse_schedule_or_auto(const std::string& text);

/// Everything but schedule, guidance mode and head groups, which "auto" leaves open. Throws
/// std::invalid_argument.
[[nodiscard]] GenerateOptions read_run(const RunWords& words, const ModelConfig& config);

/// A model that the rank threads of a process load once.
class ModelSource {
 public:
  explicit ModelSource(std::string folder) : folder_(std::move(folder)) {}
  [[nodiscard]] const LoadedModel& get();

 private:
  std::string folder_;
  std::mutex mutex_;
  std::optional<LoadedModel> model_;
};

}  // namespace dit::tool
