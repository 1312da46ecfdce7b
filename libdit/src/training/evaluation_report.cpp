#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

#include "training/evaluate.hpp"

namespace dit {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Estimate& e) { return {{"value", e.value}, {"error", e.error}}; }

Json json_of(const ClassComparison& c) {
  Json channels = Json::object();
  for (const ChannelComparison& channel : c.channels) {
    channels[channel.name] = {{"real_mean", json_of(channel.real_mean)},
                              {"generated_mean", json_of(channel.generated_mean)},
                              {"real_deviation", json_of(channel.real_deviation)},
                              {"generated_deviation", json_of(channel.generated_deviation)}};
  }
  return {{"name", c.name},
          {"channels", channels},
          {"spectrum_error", c.spectrum_error},
          {"spectrum_error_floor", c.spectrum_error_floor},
          {"accuracy_real", c.accuracy_real},
          {"accuracy_generated", c.accuracy_generated}};
}

std::string pair_of(const Estimate& real, const Estimate& generated) {
  return fmt::format("{:.3f} / {:.3f} ± {:.3f}", real.value, generated.value, generated.error);
}

}  // namespace

std::string to_json(const EvaluationReport& report) {
  Json classes = Json::array();
  for (const ClassComparison& c : report.classes) {
    classes.push_back(json_of(c));
  }
  return Json{{"size", report.size},
              {"fields_per_class", report.per_class},
              {"guidance", report.guidance},
              {"steps", report.steps},
              {"sampling_seconds", report.seconds},
              {"accuracy_real", report.accuracy_real},
              {"accuracy_generated", report.accuracy_generated},
              {"classes", classes}}
      .dump(1);
}

std::string to_markdown(const EvaluationReport& report) {
  std::string text = fmt::format(
      "{0}x{0}, {1} fields per class, guidance {2:g}, {3} steps: the classifier names {4:.1f} % of the generated fields "
      "right, {5:.1f} % of the simulated ones.\n\n| class |",
      report.size, report.per_class, report.guidance, report.steps, 100 * report.accuracy_generated,
      100 * report.accuracy_real);
  std::string rule = "|---|";
  for (const ChannelComparison& channel : report.classes.front().channels) {
    text += fmt::format(" mean {0} (simulated / generated) | std {0} |", channel.name);
    rule += "---|---|";
  }
  text += " spectrum error (floor) | named right (simulated) |\n" + rule + "---|---|\n";
  for (const ClassComparison& c : report.classes) {
    text += "| " + c.name + " |";
    for (const ChannelComparison& channel : c.channels) {
      text += fmt::format(" {} | {} |", pair_of(channel.real_mean, channel.generated_mean),
                          pair_of(channel.real_deviation, channel.generated_deviation));
    }
    text += fmt::format(" {:.1f} % ({:.1f} %) | {:.0f} % ({:.0f} %) |\n", 100 * c.spectrum_error,
                        100 * c.spectrum_error_floor, 100 * c.accuracy_generated, 100 * c.accuracy_real);
  }
  return text;
}

}  // namespace dit
