#include "coding.hpp"

#include "quantity.hpp"

namespace dit::tool {

namespace {

std::string rate_text(double seconds_a_byte) {
  return bytes_text(1 / seconds_a_byte) + "/s";
}

}  // namespace

std::vector<CodingVerdict> CodingJudge::judge(const GenerateOptions& options, const std::string& plugin,
                                              bool links_are_real) {
  std::vector<CodingVerdict> verdicts;
  ExchangeContext* const context = member_.context(plugin);
  const bool codable = options.dtype == at::kFloat || options.dtype == at::kBFloat16;
  if (!links_are_real || !options.wire || context == nullptr || context->size() == 1 || !codable)
    return verdicts;
  const auto [known, is_new] = levels_.try_emplace(plugin);
  if (is_new) known->second = measure_levels(member_, *context);
  const WireElement element = options.dtype == at::kFloat ? WireElement::fp32 : WireElement::bf16;
  const WirePlan plan(*options.wire,
                      {layers_, options.sampler.steps, context->levels(), context->slow_level()});
  for (const LevelSeconds& level : known->second) {
    const std::vector<ModeShare> modes = modes_of_level(plan, level.level);
    CodingGain gain;
    gain.share = bytes_share(modes, element);
    gain.link_seconds = level.seconds;
    gain.codec_seconds = measure_coding(member_, modes, element, options.wire->momentum);
    verdicts.push_back({level.name, gain});
  }
  return verdicts;
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
