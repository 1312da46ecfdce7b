/// @file
/// Where a preset is worth its coding: on links as fast as the codec tensors travel in full.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "job.hpp"
#include "predict/machine_rates.hpp"
#include "run_words.hpp"

namespace dit::tool {

/// A policy on the links of one level.
struct CodingVerdict {
  std::string level;
  CodingGain gain;
};

/// Judges policies on the links of a job, which are measured once for each plugin. All functions are
/// collective and give the same on all ranks.
class CodingJudge {
 public:
  /// `layers`: of the model.
  CodingJudge(const Member& member, int layers) : member_(member), layers_(layers) {}

  /// Of the options' wire policy; none where there is none, one rank, one node, or links of threads whose
  /// rate nobody gave.
  [[nodiscard]] std::vector<CodingVerdict> judge(const GenerateOptions& options, const std::string& plugin,
                                                 bool links_are_real);

 private:
  const Member& member_;
  int layers_;
  std::map<std::string, std::vector<LevelSeconds>> levels_;  // by plugin
};

/// What presets save and what their coding costs here, as if ranks were this process's; the links are left
/// open. None for tensors that no policy codes. Collective; the same on all ranks.
[[nodiscard]] std::map<std::string, CodingGain> measure_presets(const Member& member,
                                                                const GenerateOptions& options, int layers);

/// Levels on which it does not pay.
[[nodiscard]] std::vector<std::string> levels_off(const std::vector<CodingVerdict>& verdicts);
/// "balanced at world: 0.13 of the bytes, a rank has 1.2 MiB/s there and codes at 300 MiB/s: on", a line
/// each.
[[nodiscard]] std::string verdict_text(const std::string& policy, const CodingVerdict& verdict);
[[nodiscard]] nlohmann::ordered_json to_json(const std::vector<CodingVerdict>& verdicts);

}  // namespace dit::tool
