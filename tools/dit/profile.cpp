// dit profile: how much attention's tensors change from step to step, and what wire modes would lose.
#include "profile.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <vector>

#include "commands.hpp"
#include "files.hpp"
#include "profile/heat_maps.hpp"
#include "progress.hpp"
#include "quantity.hpp"
#include "run_words.hpp"
#include "text_table.hpp"
#include "validators.hpp"

namespace dit::tool {

namespace {

constexpr AttentionTensor tensors[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value,
                                       AttentionTensor::output};

struct Words {
  RunWords run;
  std::optional<double> momentum;
  std::string json, plot;
  bool quiet = false;
};

std::string percent(double part) {
  return figure(100 * part) + " %";
}

/// Means over layers and steps; the first step has no step before.
std::string table_of(const RedundancyProfile& profile) {
  std::vector<std::string> head = {"tensor", "change", "cosine", "expected"};
  for (const WireMode& mode : profiled_modes()) {
    if (!mode.skip) head.push_back(to_string(mode));
  }
  TextTable table(head);
  const double cells = static_cast<double>(profile.layers()) * std::max(1, profile.steps() - 1);
  for (const AttentionTensor tensor : tensors) {
    std::vector<double> sums(head.size() - 1);
    for (int layer = 0; layer < profile.layers(); ++layer) {
      for (int step = 1; step < profile.steps(); ++step) {
        const RedundancyCell& cell = profile.cell(tensor, layer, step);
        sums[0] += cell.change / cells;
        sums[1] += cell.cosine / cells;
        sums[2] += cell.expected / cells;
        for (std::size_t i = 3; i < sums.size(); ++i) sums[i] += cell.errors[i - 3] / cells;
      }
    }
    std::vector<std::string> line = {to_string(tensor)};
    for (std::size_t i = 0; i < sums.size(); ++i) line.push_back(i == 1 ? figure(sums[i]) : percent(sums[i]));
    table.add(line);
  }
  return table.text();
}

nlohmann::ordered_json json_of(const RedundancyProfile& profile) {
  nlohmann::ordered_json json = {{"layers", profile.layers()},
                                 {"steps", profile.steps()},
                                 {"momentum", profile.momentum()},
                                 {"modes", nlohmann::ordered_json::array()},
                                 {"cells", nlohmann::ordered_json::array()}};
  for (const WireMode& mode : profiled_modes()) {
    json["modes"].push_back({{"mode", to_string(mode)}, {"bits", bits_of(mode, WireElement::fp32)}});
  }
  for (const AttentionTensor tensor : tensors) {
    for (int layer = 0; layer < profile.layers(); ++layer) {
      for (int step = 0; step < profile.steps(); ++step) {
        const RedundancyCell& cell = profile.cell(tensor, layer, step);
        json["cells"].push_back({{"tensor", to_string(tensor)},
                                 {"layer", layer},
                                 {"step", step},
                                 {"change", cell.change},
                                 {"cosine", cell.cosine},
                                 {"expected", cell.expected},
                                 {"tokens", {cell.token_low, cell.token_median, cell.token_high}},
                                 {"errors", cell.errors}});
      }
    }
  }
  return json;
}

void write_plot(const std::string& path, const RedundancyProfile& profile) {
  std::string rows;
  for (const std::string& row : heat_map_rows()) rows += (rows.empty() ? "" : "; ") + row;
  write_png(
      path, heat_maps(profile),
      {{"Title", "dit profile"},
       {"Description", "rows: " + rows +
                           ". Columns: q, k, v, o. Steps to the right, layers downwards; logarithmic, dark "
                           "1e-4, bright 1."}});
}

void profile(const Words& words) {
  require_outputs({{"--json", words.json}, {"--plot", words.plot, FileKind::picture}});
  ModelSource source(words.run.model);
  const GenerateOptions options = read_run(words.run, source.get().config);
  const RedundancyProfile profile = profile_of(source.get(), options, momentum_for(words.momentum, options));
  if (words.json != "-" && !words.quiet) {
    std::cout << "relative L2 distances, means over " << profile.layers() << " layers and "
              << profile.steps() - 1 << " steps\n\n"
              << table_of(profile) << std::flush;
  }
  if (!words.json.empty()) write_json(words.json, json_of(profile));
  if (!words.plot.empty()) write_plot(words.plot, profile);
}

}  // namespace

float momentum_for(const std::optional<double>& given, const GenerateOptions& options) {
  return given ? static_cast<float>(*given) : suitable_momentum(options.sampler.steps);
}

RedundancyProfile profile_of(const LoadedModel& model, GenerateOptions options, float momentum) {
  RedundancyProfile profile(model.config.network->shape().layers(), options.sampler.steps, momentum);
  options.guidance_mode = GuidanceMode::batched;
  options.head_groups = 1;
  options.schedule = Schedule::flat;
  options.observe = [&](const Observation& seen) {
    const at::Tensor values = seen.values.to(at::kFloat).to(at::kCPU).contiguous();
    profile.add(seen.tensor, seen.layer, seen.step,
                {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())},
                static_cast<std::size_t>(values.size(2) * values.size(3)));
  };
  ProgressLine progress("dit profile", true);
  static_cast<void>(Engine(model, nullptr).generate(options, progress.callback()));
  return profile;
}

void add_profile_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "profile", "How much attention's tensors change from step to step, and what wire modes would lose.");
  const auto words = std::make_shared<Words>();
  declare_model(*command, words->run);
  command
      ->add_option("--momentum", words->momentum,
                   "how far tensors are expected to move on as they did; default: what suits the steps")
      ->check(number(0, 1));
  command->add_option("--json", words->json, "all layers and steps; - for the standard output")
      ->type_name("FILE");
  command->add_option("--plot", words->plot, "maps of layers and steps (PNG)")->type_name("FILE");
  command->add_flag("--quiet", words->quiet, "no table");
  command->callback([words] { profile(*words); });
}

}  // namespace dit::tool
