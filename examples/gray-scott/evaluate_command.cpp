// gray-scott evaluate: a model's fields against simulated ones that it has not seen.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "commands.hpp"
#include "compare_fields.hpp"
#include "evaluate.hpp"
#include "evaluation_sheet.hpp"
#include "files.hpp"
#include "quantity.hpp"
#include "text_table.hpp"
#include "validators.hpp"
#include "weights/safetensors.hpp"

namespace dit::gray_scott {
namespace {

using namespace tool;

struct EvaluateWords {
  EvaluateOptions options;
  std::vector<std::string> ways;  ///< folders
  std::string model;
  std::vector<double> guidance;
  std::string json;
  std::string markdown;
  std::string sheet;
};

/// ROW.safetensors of `dit bench --fields`, in several folders one after the other; the exact row first.
class Ways {
 public:
  explicit Ways(const LoadedModel& model) : scales_(model.config.channels) {}

  void add(const std::filesystem::path& folder) {
    std::map<std::string, at::Tensor> found;
    std::error_code problem;
    for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
      if (entry.path().extension() != ".safetensors") continue;
      const SafetensorsFile file(entry.path());
      if (!file.contains("fields") || !file.contains("classes")) {
        throw std::runtime_error(entry.path().string() +
                                 ": expected tensors fields and classes, of dit bench --fields");
      }
      found[entry.path().stem().string()] = file.tensor("fields").clone();
      labels_of_last_ = file.tensor("classes").to(at::kLong);
    }
    if (!found.contains("exact")) {
      throw std::invalid_argument("--fields-of " + folder.string() +
                                  ": expected a folder of dit bench --fields with a row exact");
    }
    for (const auto& [name, fields] : found) of_way_[name].push_back(fields);
    labels_.push_back(labels_of_last_);
  }

  [[nodiscard]] at::Tensor labels() const { return at::cat(labels_, 0); }
  /// Rows that are in all folders.
  [[nodiscard]] std::vector<WayFields> ways() const {
    std::vector<WayFields> ways = {{"exact", joined("exact")}};
    for (const auto& [name, parts] : of_way_) {
      if (name != "exact" && parts.size() == labels_.size()) ways.push_back({name, joined(name)});
    }
    return ways;
  }

 private:
  [[nodiscard]] at::Tensor joined(const std::string& name) const {
    return to_physical_units(at::cat(of_way_.at(name), 0), scales_);
  }

  std::vector<ChannelScale> scales_;
  std::map<std::string, std::vector<at::Tensor>> of_way_;
  std::vector<at::Tensor> labels_;
  at::Tensor labels_of_last_;
};

void compare_ways(const EvaluateWords& words, const LoadedModel& model) {
  check(words.options, model.config);
  Ways ways(model);
  for (const std::string& folder : words.ways) ways.add(folder);
  const std::vector<WayFields> fields = ways.ways();
  GrayScottOptions simulation;
  simulation.size = fields.front().fields.size(3);
  simulation.steps = words.options.simulation_steps;
  simulation.seed = words.options.seed;
  const FieldSet simulated =
      simulate_fields(words.options.regimes, words.options.per_class, simulation, at::kCPU);
  const FieldComparison compared =
      compare_fields(fields, ways.labels(), simulated, model.config.network->shape().classes);
  TextTable table({"row", "spectrum", "worst", "beyond spread", "right class", "class of exact"});
  nlohmann::ordered_json json = {{"fields", compared.fields},
                                 {"spread", compared.spread_median},
                                 {"rows", nlohmann::ordered_json::array()}};
  for (const WayComparison& way : compared.ways) {
    table.add({way.name, figure(way.spectrum_median), figure(way.spectrum_worst),
               std::to_string(way.beyond_spread), std::to_string(way.named_right),
               std::to_string(way.named_as_first)});
    json["rows"].push_back({{"name", way.name},
                            {"spectrum_median", way.spectrum_median},
                            {"spectrum_worst", way.spectrum_worst},
                            {"beyond_spread", way.beyond_spread},
                            {"right_class", way.named_right},
                            {"class_of_exact", way.named_as_first}});
  }
  std::cout << compared.fields << " fields; two simulated ones of a class differ by "
            << figure(compared.spread_median) << " in their spectra\n\n"
            << table.text() << std::flush;
  if (!words.json.empty()) write_json(words.json, json);
}

void run(const EvaluateWords& words) {
  require_outputs(
      {{"--json", words.json}, {"--markdown", words.markdown}, {"--sheet", words.sheet, FileKind::picture}});
  const LoadedModel model = load_model(words.model);
  if (!words.ways.empty()) return compare_ways(words, model);
  const Evaluation evaluation(model, words.options);
  std::string json;
  std::string markdown;
  const std::vector<double> all =
      words.guidance.empty() ? std::vector<double>{model.config.guidance} : words.guidance;
  for (const double guidance : all) {
    const EvaluationReport report = evaluation.compare(guidance);
    json += (json.empty() ? "" : ",\n") + to_json(report);
    markdown += to_markdown(report) + "\n";
    std::cout << to_markdown(report) << std::endl;
    if (!words.sheet.empty()) {  // the last one's stays
      write_png(words.sheet, comparison_sheet(evaluation.held_out(), report));
    }
  }
  if (!words.json.empty()) {
    write_text(words.json, "[" + json + "]\n");
  }
  if (!words.markdown.empty()) {
    write_text(words.markdown, markdown);
  }
}

}  // namespace

void add_evaluate_command(CLI::App& app) {
  const auto words = std::make_shared<EvaluateWords>();
  EvaluateOptions& o = words->options;
  CLI::App& command =
      *app.add_subcommand("evaluate", "A model's fields against simulations that it has not seen.");
  command.add_option("model", words->model, "folder of the model; default: the embedded model")
      ->type_name("DIR");
  command
      .add_option("--fields-of", words->ways,
                  "instead of sampling: folders of dit bench --fields; the rows' spectra and classes against "
                  "those of "
                  "the exact row")
      ->delimiter(',')
      ->type_name("DIR");
  command.add_option("--guidance", words->guidance, "guidance scales; default: the model's")
      ->delimiter(',')
      ->check(number(0, 1000));
  command.add_option("--size", o.size, "pixels a side")->check(whole_number(8, 1024))->capture_default_str();
  command.add_option("--fields", o.per_class, "fields of each class")
      ->check(whole_number(2, 100'000))
      ->capture_default_str();
  command.add_option("--steps", o.steps, "sampling steps")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  command.add_option("--simulation-steps", o.simulation_steps, "of each field")
      ->check(whole_number(1, 10'000'000))
      ->capture_default_str();
  command.add_option("--seed", o.seed, "of the held-out fields and of the noise")
      ->check(whole_number(0, INT64_MAX))
      ->capture_default_str();
  command.add_option("--device", o.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  command.add_flag("--bf16", o.bf16, "sample in bf16");
  command.add_option("--json", words->json, "all figures")->type_name("FILE");
  command.add_option("--markdown", words->markdown, "the tables")->type_name("FILE");
  command.add_option("--sheet", words->sheet, "PNG: simulated fields beside generated ones, a row per class")
      ->type_name("FILE");
  command.callback([words] { run(*words); });
}

}  // namespace dit::gray_scott
