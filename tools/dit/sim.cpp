// dit sim: step times of published models on machines that nobody here has.
#include <CLI/CLI.hpp>
#include <iostream>

#include "commands.hpp"
#include "files.hpp"
#include "predict/simulated_steps.hpp"
#include "quantity.hpp"
#include "status_line.hpp"
#include "text_table.hpp"
#include "validators.hpp"

namespace dit::tool {

namespace {

struct Words {
  std::string model = "qwen-image";
  std::string machine = "aurora";
  std::string nodes = "1,2,4,8";
  SimulatedImage image;
  double flops = 0, attention_flops = 0;  ///< 0: the machine's published ones
  std::string json;
};

MachineRates rates_of(const Words& words, const std::string& machine, std::string& source) {
  const PublishedRates* const published = published_rates(machine);
  if (published == nullptr && words.flops <= 0) {
    throw std::invalid_argument("--flops is not given: expected what a rank of " + machine +
                                " computes in matrix products, such as 200tflops");
  }
  MachineRates rates;
  rates.linear_flops = words.flops > 0 ? words.flops : published->linear_flops;
  rates.attention_flops = words.attention_flops > 0 ? words.attention_flops
                          : words.flops > 0         ? words.flops / 2
                                                    : published->attention_flops;
  rates.memory_bytes_per_second = published != nullptr ? published->memory_bytes_per_second : 0;
  rates.fast = rates.slow = {1e9, 0};  // the simulator says what exchanges take
  source = words.flops > 0 ? "given" : published->source;
  return rates;
}

std::string ms(double seconds) {
  return figure(seconds * 1e3);
}

/// Per way: on how many nodes it is fastest, and from which on more nodes are slower.
std::string where_it_stops(const std::vector<SimulatedRow>& rows) {
  std::string text;
  for (const Way& way : ways()) {
    const SimulatedRow* best = nullptr;
    const SimulatedRow* slower = nullptr;
    for (const SimulatedRow& row : rows) {
      if (row.way != &way) continue;
      if (best == nullptr || row.step.seconds < best->step.seconds) {
        best = &row;
        slower = nullptr;
      } else if (slower == nullptr) {
        slower = &row;
      }
    }
    if (best == nullptr) continue;
    text += way.name + ": fastest on " + counted(best->nodes, "node");
    if (slower != nullptr)
      text += "; " + counted(slower->nodes, "node") + ": " + ms(slower->step.seconds) + " ms";
    text += "\n";
  }
  return text;
}

void print(const Words& words, const PublishedModel& model, const std::string& machine,
           const MachineRates& rates, const std::string& source, const std::vector<SimulatedRow>& rows) {
  std::cout << model.name << ", " << words.image.pixels << "x" << words.image.pixels << ", batch "
            << words.image.batch << ", bf16, on " << machine << "; a rank computes "
            << figure(rates.linear_flops / 1e12) << " TFLOP/s, in attention "
            << figure(rates.attention_flops / 1e12) << " (" << source << ")\n\n";
  TextTable table({"nodes", "ranks", "row", "step ms", "compute", "exposed", "ratio"});
  for (const SimulatedRow& row : rows) {
    table.add({std::to_string(row.nodes), std::to_string(row.ranks), row.way->name, ms(row.step.seconds),
               ms(row.step.compute_seconds), ms(row.step.exposed_seconds), figure(row.ratio_to_flat)});
  }
  std::cout << table.text() << "\n" << where_it_stops(rows) << std::flush;
}

nlohmann::ordered_json to_json(const Words& words, const PublishedModel& model, const std::string& machine,
                               const MachineRates& rates, const std::string& source,
                               const std::vector<SimulatedRow>& rows) {
  nlohmann::ordered_json json;
  json["machine"] = machine;
  json["model"] = model.name;
  json["pixels"] = words.image.pixels;
  json["batch"] = words.image.batch;
  json["steps"] = words.image.steps;
  json["linear_flops"] = rates.linear_flops;
  json["attention_flops"] = rates.attention_flops;
  json["compute_from"] = source;
  json["rows"] = nlohmann::ordered_json::array();
  for (const SimulatedRow& row : rows) {
    json["rows"].push_back({{"nodes", row.nodes},
                            {"ranks", row.ranks},
                            {"name", row.way->name},
                            {"step_ms", row.step.seconds * 1e3},
                            {"compute_ms", row.step.compute_seconds * 1e3},
                            {"exchange_ms", row.step.exchange_seconds * 1e3},
                            {"exposed_ms", row.step.exposed_seconds * 1e3},
                            {"ratio_to_flat", row.ratio_to_flat}});
  }
  return json;
}

void simulate(const Words& words) {
  const PublishedModel& model = published_model(words.model);
  const std::vector<int> nodes = parse_rank_counts(words.nodes, 1024);
  require_outputs({{"--json", words.json}});
  SimulatedMachine machine(words.machine);
  std::string source;
  const MachineRates rates = rates_of(words, machine.name(), source);
  SimulatedSteps simulation(words.image, model, machine, rates);
  std::vector<SimulatedRow> rows;
  const tapa::StatusLine line;
  for (const int count : nodes) {
    line.show("dit sim: " + counted(count, "node") + ", of " + words.nodes);
    const std::vector<SimulatedRow> more = simulation.rows(count);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (words.json != "-") print(words, model, machine.name(), rates, source, rows);
  if (!words.json.empty()) write_json(words.json, to_json(words, model, machine.name(), rates, source, rows));
}

}  // namespace

void add_sim_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "sim",
      "Step times of published models on simulated machines: exchanges by tapa-sim, computing from rates.");
  const auto words = std::make_shared<Words>();
  command->add_option("--model", words->model, published_model_names())->capture_default_str();
  command->add_option("--machine", words->machine, "a name or file as tapa-sim --list names it")
      ->capture_default_str();
  command->add_option("--nodes", words->nodes, "node counts, such as 1,2,4,8")
      ->check(rank_counts(1024))
      ->capture_default_str();
  command->add_option("--size", words->image.pixels, "side of the square image, pixels")
      ->check(whole_number(16, 16384))
      ->capture_default_str();
  command->add_option("--batch", words->image.batch, "images at once")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command->add_option("--steps", words->image.steps, "sampling steps, for V-Major's mean")
      ->check(whole_number(1, 10000))
      ->capture_default_str();
  command->add_option("--flops", words->flops, "what a rank computes in matrix products; default: published")
      ->transform(flops_value());
  command
      ->add_option("--attention-flops", words->attention_flops,
                   "and in attention; default: published, or half of --flops")
      ->transform(flops_value());
  command->add_option("--json", words->json, "report; - for the standard output")->type_name("FILE");
  command->callback([words] { simulate(*words); });
}

}  // namespace dit::tool
