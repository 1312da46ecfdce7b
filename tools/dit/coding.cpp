#include "coding.hpp"

#include "engine/tensor_views.hpp"
#include "quantity.hpp"

namespace dit::tool {

namespace {

bool is_codable(const GenerateOptions& options) {
  return options.dtype == at::kFloat || options.dtype == at::kBFloat16;
}

/// Of a policy on links of a level that nothing is known of yet.
CodingGain gain_at(const Member& member, const WirePlan& plan, int level, WireElement element) {
  const std::vector<ModeShare> modes = modes_of_level(plan, level);
  CodingGain gain;
  gain.share = bytes_share(modes, element);
  gain.codec_seconds = measure_coding(member.context(), modes, element, plan.policy().momentum);
  return gain;
}

std::string rate_text(double seconds_a_byte) {
  return bytes_text(1 / seconds_a_byte) + "/s";
}

}  // namespace

std::vector<CodingVerdict> CodingJudge::judge(const GenerateOptions& options, const std::string& plugin,
                                              bool links_are_real) {
  std::vector<CodingVerdict> verdicts;
  ExchangeContext* const context = member_.context(plugin);
  if (!links_are_real || !options.wire || context == nullptr || context->size() == 1 || !is_codable(options))
    return verdicts;
  const auto [known, is_new] = levels_.try_emplace(plugin);
  if (is_new) known->second = measure_levels(*context);
  const WirePlan plan(*options.wire,
                      {layers_, options.sampler.steps, context->levels(), context->slow_level()});
  for (const LevelSeconds& level : known->second) {
    CodingGain gain = gain_at(member_, plan, level.level, wire_element(options.dtype));
    gain.link_seconds = level.seconds;
    verdicts.push_back({level.name, gain});
  }
  return verdicts;
}

std::map<std::string, CodingGain> measure_presets(const Member& member, const GenerateOptions& options,
                                                  int layers) {
  std::map<std::string, CodingGain> gains;
  if (!is_codable(options)) return gains;
  for (const char* name : {"fp8", "balanced", "fast"}) {
    const int steps = options.sampler.steps;
    const WirePlan plan = far_plan(wire_preset(name, steps), layers, steps);
    gains[name] = gain_at(member, plan, kFarLevel, wire_element(options.dtype));
  }
  return gains;
}

std::vector<std::string> levels_off(const std::vector<CodingVerdict>& verdicts) {
  std::vector<std::string> off;
  for (const CodingVerdict& verdict : verdicts) {
    if (!verdict.gain.pays()) off.push_back(verdict.level);
  }
  return off;
}

std::string verdict_text(const std::string& policy, const CodingVerdict& verdict) {
  const CodingGain& gain = verdict.gain;
  std::string text = policy + " at " + verdict.level + ": " + figure(gain.share) +
                     " of the bytes, a rank sends " + rate_text(gain.link_seconds);
  if (gain.codec_seconds > 0) text += " there and codes " + rate_text(gain.codec_seconds);
  return text + ": " + (gain.pays() ? "on" : "off, coding takes longer than it saves");
}

nlohmann::ordered_json to_json(const std::vector<CodingVerdict>& verdicts) {
  auto json = nlohmann::ordered_json::array();
  for (const CodingVerdict& verdict : verdicts) {
    json.push_back(
        {{"level", verdict.level},
         {"share", verdict.gain.share},
         {"link_bytes_per_second", 1 / verdict.gain.link_seconds},
         {"codec_bytes_per_second", verdict.gain.codec_seconds > 0 ? 1 / verdict.gain.codec_seconds : 0.0},
         {"break_even_bytes_per_second", verdict.gain.codec_seconds > 0 ? verdict.gain.break_even() : 0.0},
         {"pays", verdict.gain.pays()}});
  }
  return json;
}

}  // namespace dit::tool
