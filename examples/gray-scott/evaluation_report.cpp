#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "evaluate.hpp"

namespace dit::gray_scott {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Estimate& e) {
  return {{"value", e.value}, {"error", e.error}};
}

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

std::string fixed(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

std::string percent(double share, int digits) {
  return fixed(100 * share, digits) + " %";
}

std::string pair_of(const Estimate& real, const Estimate& generated) {
  return fixed(real.value, 3) + " / " + fixed(generated.value, 3) + " ± " + fixed(generated.error, 3);
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
  std::ostringstream text;
  text << report.size << "x" << report.size << ", " << report.per_class << " fields per class, guidance "
       << report.guidance << ", " << report.steps << " steps: the classifier names "
       << percent(report.accuracy_generated, 1) << " of the generated fields right, "
       << percent(report.accuracy_real, 1) << " of the simulated ones.\n\n| class |";
  std::string rule = "|---|";
  for (const ChannelComparison& channel : report.classes.front().channels) {
    text << " mean " << channel.name << " (simulated / generated) | std " << channel.name << " |";
    rule += "---|---|";
  }
  text << " spectrum error (floor) | named right (simulated) |\n" << rule << "---|---|\n";
  for (const ClassComparison& c : report.classes) {
    text << "| " << c.name << " |";
    for (const ChannelComparison& channel : c.channels) {
      text << " " << pair_of(channel.real_mean, channel.generated_mean) << " | "
           << pair_of(channel.real_deviation, channel.generated_deviation) << " |";
    }
    text << " " << percent(c.spectrum_error, 1) << " (" << percent(c.spectrum_error_floor, 1) << ") | "
         << percent(c.accuracy_generated, 0) << " (" << percent(c.accuracy_real, 0) << ") |\n";
  }
  return text.str();
}

}  // namespace dit::gray_scott
