// dit sim: step times of published models on machines that nobody here has.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "commands.hpp"
#include "files.hpp"
#include "published_models.hpp"
#include "quantity.hpp"
#include "schedule/model_cost.hpp"
#include "simulated_machine.hpp"
#include "step_mix.hpp"
#include "text_table.hpp"
#include "wire/v_major.hpp"

namespace dit::tool {

namespace {

struct Words {
  std::string model = "qwen-image";
  std::string machine = "aurora";
  std::string nodes = "1,2,4,8";
  std::int64_t pixels = 1536;
  int batch = 1;
  int steps = 50;
  double flops = 0, attention_flops = 0;  ///< 0: the machine's published ones
  std::string json;
};

/// What a row of the table adds to the flat baseline.
struct Way {
  std::string name;
  bool tapa = true;
  Schedule schedule = Schedule::v_first;
  bool v_major = false;
  double scatter_share = 1;  ///< of the bytes of Q, K and V that cross nodes
  double output_share = 1;
  double codec_bytes = 0;  ///< that an end reads and writes for each byte which crosses nodes uncoded
};

// fp8: a byte for two; each end reads what the other one writes. int4 residuals: a quarter and scales, 1/2.92
// of 16 bits with everything counted; each end also reads and writes what the receiver has.
const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"flat", false, Schedule::flat},
      {"+TAPA", true, Schedule::flat},
      {"+V-First", true, Schedule::v_first},
      {"pipelined", true, Schedule::pipelined},
      {"V-Major", true, Schedule::v_first, true},
      {"fp8 on slow links", true, Schedule::v_first, false, 0.5, 0.5, 1.5},
      {"int4 residuals on slow links", true, Schedule::v_first, false, 0.342, 0.342, 3.342},
  };
  return all;
}

struct Row {
  int nodes = 1;
  int ranks = 1;
  const Way* way = nullptr;
  Prediction step;
  double ratio_to_flat = 1;
};

class Simulation {
 public:
  Simulation(const Words& words, const PublishedModel& model, SimulatedMachine& machine,
             const MachineRates& rates)
      : words_(words),
        model_(model),
        machine_(machine),
        rates_(rates),
        mix_(mix_of(wire_policy_of(VMajorPolicy{}, words.steps), 1, words.steps, WireElement::bf16)) {}

  /// Simulates what the rows of these nodes need, then predicts them.
  [[nodiscard]] std::vector<Row> rows(int nodes) {
    const ForwardShape shape = shape_of(nodes * machine_.ranks_per_node());
    std::vector<std::size_t> whole, all;
    for (const StepRole role : {StepRole::scatter_value, StepRole::scatter_query, StepRole::gather_output}) {
      for (const Way& way : ways()) all.push_back(block(role, shape, share_of(way, role)));
      all.push_back(block(role, shape, role == StepRole::gather_output ? 1 : mix_.selective.scatter));
      whole.push_back(block(role, shape, 1));
    }
    machine_.simulate(nodes, whole, true);
    machine_.simulate(nodes, all, false);
    if (nodes > 1) machine_.simulate(1, all, false);
    std::vector<Row> rows;
    for (const Way& way : ways()) {
      const bool slow_only = way.v_major || way.scatter_share < 1;
      if (nodes == 1 && slow_only) continue;  // nothing is slow
      Row row{nodes, shape.ranks, &way, predicted(way, shape, nodes, false), 1};
      if (way.v_major) {
        row.step = mixed(row.step, predicted(way, shape, nodes, true), mix_.full_share);
      }
      rows.push_back(row);
      rows.back().ratio_to_flat = rows.front().step.seconds / row.step.seconds;
    }
    return rows;
  }

 private:
  [[nodiscard]] ForwardShape shape_of(int ranks) const {
    const std::int64_t side = words_.pixels / model_.token_pixels;
    ForwardShape shape;
    shape.attention.batch = words_.batch;
    shape.attention.text_tokens = model_.text_tokens;
    shape.attention.image_tokens = side * side;
    shape.attention.heads = shape.attention.kv_heads = model_.heads;
    shape.attention.head_dim = model_.head_dim;
    shape.width = model_.heads * model_.head_dim;
    shape.patch_elements = 64;
    shape.element_bytes = 2;
    shape.ranks = ranks;
    shape.ranks_per_node = machine_.ranks_per_node();
    return shape;
  }

  static double share_of(const Way& way, StepRole role) {
    return role == StepRole::gather_output ? way.output_share : way.scatter_share;
  }

  static std::size_t block(StepRole role, const ForwardShape& shape, double share) {
    return static_cast<std::size_t>(std::max(1.0, std::round(mean_block_bytes(role, shape) * share)));
  }

  /// Blocks of which only a share crosses nodes, while all of it travels within them: the exchange of the
  /// share, and what the rest takes on one node.
  [[nodiscard]] double exchange_seconds(StepRole role, const ForwardShape& shape, int nodes, bool tapa,
                                        double share) const {
    const auto seconds = [&](int on, double part) {
      const SimulatedExchange exchange = machine_.exchange(on, block(role, shape, part));
      return tapa ? exchange.tapa : exchange.flat;
    };
    if (share == 1) return seconds(nodes, 1);
    return seconds(nodes, share) + std::max(0.0, seconds(1, 1) - seconds(1, share));
  }

  /// What coding and decoding one exchange's blocks for other nodes takes, on top of the exchange.
  [[nodiscard]] double codec_seconds(const Way& way, StepRole role, const ForwardShape& shape) const {
    if (way.codec_bytes <= 0 || rates_.memory_bytes_per_second <= 0) return 0;
    const double remote = shape.ranks - shape.ranks_per_node;
    return 2 * remote * mean_block_bytes(role, shape) * way.codec_bytes / rates_.memory_bytes_per_second;
  }

  [[nodiscard]] Prediction predicted(const Way& way, const ForwardShape& shape, int nodes,
                                     bool selective) const {
    BlockGraphOptions block;
    block.units = model_.branches;
    block.layers = model_.layers;
    block.selective = selective;
    StepGraph graph = transformer_graph(block);
    estimate(graph, shape, rates_);
    std::map<StepRole, double> seconds;
    for (Step& step : graph.steps) {
      if (!is_exchange(step.role)) continue;
      if (!seconds.contains(step.role)) {
        const StepRole kind = step.role == StepRole::scatter_key ? StepRole::scatter_value : step.role;
        const bool rows_stay = selective && step.role != StepRole::gather_output;
        seconds[step.role] = exchange_seconds(kind, shape, nodes, way.tapa,
                                              rows_stay ? mix_.selective.scatter : share_of(way, step.role)) +
                             codec_seconds(way, kind, shape);
      }
      step.seconds = seconds[step.role];
    }
    return predict(graph, make_order(way.schedule, graph));
  }

  const Words& words_;
  const PublishedModel& model_;
  SimulatedMachine& machine_;
  MachineRates rates_;
  StepMix mix_;
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
std::string where_it_stops(const std::vector<Row>& rows) {
  std::string text;
  for (const Way& way : ways()) {
    const Row* best = nullptr;
    const Row* slower = nullptr;
    for (const Row& row : rows) {
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
           const MachineRates& rates, const std::string& source, const std::vector<Row>& rows) {
  std::cout << model.name << ", " << words.pixels << "x" << words.pixels << ", batch " << words.batch
            << ", bf16, on " << machine << "; a rank computes " << figure(rates.linear_flops / 1e12)
            << " TFLOP/s, in attention " << figure(rates.attention_flops / 1e12) << " (" << source << ")\n\n";
  TextTable table({"nodes", "ranks", "row", "step ms", "compute", "exposed", "ratio"});
  for (const Row& row : rows) {
    table.add({std::to_string(row.nodes), std::to_string(row.ranks), row.way->name, ms(row.step.seconds),
               ms(row.step.compute_seconds), ms(row.step.exposed_seconds), figure(row.ratio_to_flat)});
  }
  std::cout << table.text() << "\n" << where_it_stops(rows) << std::flush;
}

nlohmann::ordered_json to_json(const Words& words, const PublishedModel& model, const std::string& machine,
                               const MachineRates& rates, const std::string& source,
                               const std::vector<Row>& rows) {
  nlohmann::ordered_json json;
  json["machine"] = machine;
  json["model"] = model.name;
  json["pixels"] = words.pixels;
  json["batch"] = words.batch;
  json["steps"] = words.steps;
  json["linear_flops"] = rates.linear_flops;
  json["attention_flops"] = rates.attention_flops;
  json["compute_from"] = source;
  json["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
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
  if (words.pixels % model.token_pixels != 0) {
    throw std::invalid_argument("--size is " + std::to_string(words.pixels) + ", expected a multiple of " +
                                std::to_string(model.token_pixels));
  }
  require_outputs({{"--json", words.json}});
  SimulatedMachine machine(words.machine);
  std::string source;
  const MachineRates rates = rates_of(words, machine.name(), source);
  Simulation simulation(words, model, machine, rates);
  std::vector<Row> rows;
  for (const int count : nodes) {
    const std::vector<Row> more = simulation.rows(count);
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
  command->add_option("--machine", words->machine, "a name or file as tapa-sim --list tells")
      ->capture_default_str();
  command->add_option("--nodes", words->nodes, "node counts, such as 1,2,4,8")
      ->check(rank_counts(1024))
      ->capture_default_str();
  command->add_option("--size", words->pixels, "side of the square image, pixels")
      ->check(whole_number(16, 16384))
      ->capture_default_str();
  command->add_option("--batch", words->batch, "images at once")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command->add_option("--steps", words->steps, "sampling steps, for V-Major's mean")
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
