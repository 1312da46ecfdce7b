// dit evaluate: a model's fields against simulated ones that it has not seen.
#include "training/evaluate.hpp"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "files.hpp"
#include "quantity.hpp"
#include "training/evaluation_sheet.hpp"

namespace dit::tool {
namespace {

struct EvaluateWords {
  EvaluateOptions options;
  std::string model;
  std::vector<double> guidance;
  std::string json;
  std::string markdown;
  std::string sheet;
};

void run(const EvaluateWords& words) {
  require_outputs(
      {{"--json", words.json}, {"--markdown", words.markdown}, {"--sheet", words.sheet, FileKind::picture}});
  const LoadedModel model = load_model(words.model);
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

}  // namespace dit::tool
