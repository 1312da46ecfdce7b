// dit plan: step times of schedules, policies and rank counts, before anybody runs them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <set>

#include "coding.hpp"
#include "commands.hpp"
#include "engine/run_shape.hpp"
#include "engine/tensor_views.hpp"
#include "engine/threads.hpp"
#include "files.hpp"
#include "job.hpp"
#include "model_rates.hpp"
#include "plan_policy.hpp"
#include "predict/plan_rows.hpp"
#include "profile.hpp"
#include "quantity.hpp"
#include "run_words.hpp"
#include "text_table.hpp"
#include "validators.hpp"

namespace dit::tool {

namespace {

struct Words {
  RunWords run;
  JobWords job;
  std::string ranks;
  int ranks_per_node = 0;
  double fast_rate = 0, slow_rate = 0;  ///< bytes a second; 0: not given
  double fast_latency = 5e-6, latency = 5e-5;
  double flops = 0;  ///< 0: measured here
  double slots = 0;
  double progress_cost = 0;
  bool two_level = false;
  bool explain = false;
  std::string json;
  PolicyWords policy;
};

constexpr const char* exact_label = "exact";

std::string policy_label(const Words& words) {
  return short_text(parse_policy(words.run.policy));
}

/// What is predicted from, and where it comes from.
struct Machine {
  MachineRates rates;
  int ranks_per_node = 1;
  std::string compute_from = "given";
  std::string links_from = "given";
  std::map<std::string, CodingVerdict> coding;  ///< presets on links between nodes, on the most ranks
};

std::string ms(double seconds) {
  return figure(seconds * 1e3);
}

/// Which schedule to use, and where more ranks stop to help.
std::string advice(const std::vector<PlanRow>& rows, const std::vector<int>& counts,
                   const std::string& policy) {
  const bool exact = policy == exact_label;
  const PlanRow* best = fastest(rows, exact, 0);
  if (best == nullptr) return "";
  std::string text =
      policy + ": fastest on " + std::to_string(best->ranks) +
      (best->ranks == 1 ? " rank: " : std::string(" ranks with ") + to_string(best->schedule) + ": ") +
      ms(best->step.seconds) + " ms a step";
  const PlanRow* first = fastest(rows, true, counts.front());
  if (first != nullptr && first->ranks < best->ranks) {
    text += ", " + figure(first->step.seconds / best->step.seconds) + " times as fast as " +
            std::to_string(first->ranks) + (first->ranks == 1 ? " rank" : " ranks");
  }
  for (const int ranks : counts) {
    const PlanRow* other = fastest(rows, exact, ranks);
    if (ranks <= best->ranks || other == nullptr || other->step.seconds <= best->step.seconds) continue;
    text += "; " + std::to_string(ranks) + " ranks are slower: " + ms(other->step.seconds) + " ms";
    break;
  }
  return text + "\n";
}

std::string link_text(const LinkRates& link) {
  return bytes_text(link.bytes_per_second) + "/s and " + figure(link.seconds_per_message * 1e6) +
         " us a message";
}

void print(const Words& words, const Machine& machine, const GenerateOptions& options, const StepMix& mix,
           const PlanRows& planner, const std::vector<PlanRow>& rows, const std::vector<int>& counts) {
  const MachineRates& rates = machine.rates;
  std::cout << options.height << "x" << options.width << ", guidance " << figure(options.guidance) << ", "
            << at::toString(options.dtype) << "\na rank computes " << figure(rates.linear_flops / 1e9)
            << " GFLOP/s in matrix products, " << figure(rates.attention_flops / 1e9) << " in attention ("
            << machine.compute_from << ")\nlinks within a node: " << link_text(rates.fast);
  if (planner.nodes(counts.back()) > 1) {
    std::cout << "; a node's NIC: " << link_text(rates.slow) << "; " << machine.ranks_per_node
              << " ranks a node";
  }
  std::cout << " (" << machine.links_from << ")\n\n";
  TextTable table({"ranks", "nodes", "policy", "schedule", "step ms", "compute", "exposed", "NIC/step",
                   "cache/rank", ""});
  const std::string policy = policy_label(words);
  for (const PlanRow& row : rows) {
    const bool best = &row == fastest(rows, row.exact, row.ranks);
    table.add({std::to_string(row.ranks), std::to_string(row.nodes), row.exact ? exact_label : policy,
               to_string(row.schedule), ms(row.step.seconds), ms(row.step.compute_seconds),
               ms(row.step.exposed_seconds), row.nodes > 1 ? bytes_text(row.node_bytes) : "-",
               row.cache_bytes > 0 ? bytes_text(static_cast<double>(row.cache_bytes)) : "-",
               best ? "*" : ""});
  }
  std::cout << table.text() << "\n" << advice(rows, counts, exact_label) << advice(rows, counts, policy);
  if (planner.nodes(counts.back()) > 1) {
    const auto mean = [&](double full, double selective) {
      return figure(100 * (mix.full_share * full + (1 - mix.full_share) * selective));
    };
    std::cout << policy << " sends " << mean(mix.full.scatter, mix.selective.scatter)
              << " % of the bytes of Q, K and V and " << mean(mix.full.output, mix.selective.output)
              << " % of the output's over " << options.sampler.steps << " steps; it changes the image\n";
  }
  for (const auto& [name, verdict] : machine.coding) std::cout << verdict_text(name, verdict) << "\n";
  if (words.explain) {
    for (const Schedule schedule : {Schedule::flat, Schedule::v_first, Schedule::pipelined}) {
      const int ranks = fastest(rows, true, 0)->ranks;
      std::cout << "\n"
                << to_string(schedule) << " on " << ranks << " ranks\n"
                << planner.explained(ranks, schedule);
    }
  }
  std::cout << std::flush;
}

nlohmann::ordered_json to_json(const Machine& machine, const std::vector<PlanRow>& rows,
                               const std::vector<int>& counts, const std::string& policy) {
  const auto link = [](const LinkRates& rates) {
    return nlohmann::ordered_json{{"bytes_per_second", rates.bytes_per_second},
                                  {"seconds_per_message", rates.seconds_per_message}};
  };
  nlohmann::ordered_json json;
  json["machine"] = {
      {"linear_flops", machine.rates.linear_flops}, {"attention_flops", machine.rates.attention_flops},
      {"compute_from", machine.compute_from},       {"links_from", machine.links_from},
      {"ranks_per_node", machine.ranks_per_node},   {"two_level", machine.rates.two_level}};
  json["machine"]["fast"] = link(machine.rates.fast);
  json["machine"]["slow"] = link(machine.rates.slow);
  for (const auto& [policy, verdict] : machine.coding)
    json["coding"][policy] = tool::to_json(std::vector{verdict})[0];
  json["rows"] = nlohmann::ordered_json::array();
  for (const PlanRow& row : rows) {
    json["rows"].push_back({{"ranks", row.ranks},
                            {"nodes", row.nodes},
                            {"policy", row.exact ? exact_label : policy},
                            {"schedule", to_string(row.schedule)},
                            {"step_ms", row.step.seconds * 1e3},
                            {"compute_ms", row.step.compute_seconds * 1e3},
                            {"exposed_ms", row.step.exposed_seconds * 1e3},
                            {"bytes_slow", row.node_bytes},
                            {"cache_bytes", row.cache_bytes}});
  }
  for (const bool exact : {true, false}) {
    if (const PlanRow* best = fastest(rows, exact, 0)) {
      json[exact ? "best" : "best_policy"] = {{"ranks", best->ranks},
                                              {"schedule", to_string(best->schedule)},
                                              {"advice", advice(rows, counts, exact ? exact_label : policy)}};
    }
  }
  return json;
}

std::vector<int> read_counts(const Words& words, int job_ranks, int ranks_per_node) {
  if (!words.ranks.empty()) return parse_rank_counts(words.ranks, 1024);
  if (job_ranks == 1) return {1, 2, 4, 8};
  const std::set<int> counts = {1, ranks_per_node, job_ranks, 2 * job_ranks};
  return {counts.begin(), counts.end()};
}

/// From the words and what was measured; throws for what is neither given nor measured.
Machine machine_from(const Words& words, const ComputeRates& compute, const MeasuredLinks& links, int threads,
                     const std::vector<int>& counts, int ranks_per_node) {
  Machine machine;
  machine.ranks_per_node = ranks_per_node;
  machine.rates.linear_flops = compute.linear;
  machine.rates.attention_flops = compute.attention;
  if (words.flops <= 0) {
    machine.compute_from =
        "measured here, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }
  machine.rates.compute_slots = words.slots;
  machine.rates.two_level = words.two_level;
  const LinkRates memory{4e9,
                         words.fast_latency};  // a copy through memory, where nobody says or measures more
  machine.rates.fast =
      words.fast_rate > 0 ? LinkRates{words.fast_rate, words.fast_latency} : links.fast.value_or(memory);
  const bool several_nodes = counts.back() > ranks_per_node;
  if (words.slow_rate <= 0 && !links.slow && several_nodes) {
    throw std::invalid_argument(
        "--slow-rate is not given: expected the rate of a node's NIC, such as 100mbit, as " +
        std::to_string(counts.back()) + " ranks are on several nodes");
  }
  machine.rates.slow = words.slow_rate > 0 ? LinkRates{words.slow_rate, words.latency}
                                           : links.slow.value_or(machine.rates.fast);
  if (words.fast_rate <= 0) machine.links_from = links.fast ? "measured" : "links within a node assumed";
  if (words.slow_rate <= 0 && links.slow) machine.links_from = "measured";
  return machine;
}

/// What the rows are asked of: shapes and memory as the engine would have them.
PlanQuestion question_of(const ModelConfig& config, const GenerateOptions& options) {
  PlanQuestion question;
  const ModelShape& model = config.network->shape();
  question.layers = model.layers();
  question.head_groups = options.head_groups;
  question.mix = mix_of(*options.wire, question.layers, options.sampler.steps, wire_element(options.dtype));
  question.run = [&model, options](int ranks, Schedule schedule) {
    GenerateOptions on_ranks = options;
    on_ranks.schedule = schedule;
    const RunShape shape = shape_of(model, on_ranks, ranks);
    const UlyssesLayout layout = layout_of(shape, on_ranks);  // refuses rank counts that the heads forbid
    PlannedRun run;
    run.shape = forward_shape(model, shape, on_ranks);
    run.units = shape.units;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      run.cache_bytes = std::max(run.cache_bytes, cache_of(model, shape, on_ranks, rank).total());
    }
    return run;
  };
  return question;
}

void plan_on(const Member& member, const Words& words, ModelSource& source) {
  GenerateOptions options;
  member.on_leader([&] { require_outputs({{"--json", words.json}}); });
  member.together([&] {
    options = read_run(words.run, source.get().config);
    if (!options.wire) {
      throw std::invalid_argument("--policy is \"" + words.run.policy +
                                  "\", expected one that approximates: exact rows are always there");
    }
    options.guidance_mode = parse_mode_or_auto(words.run.guidance_mode);
    options.head_groups = std::max(1, words.run.head_groups);
    // The size is checked before anything is measured.
    static_cast<void>(shape_of(source.get().config.network->shape(), options, 2));
  });
  const int threads = words.job.threads > 0 ? words.job.threads
                      : member.size() > 1   ? compute_threads_for(member.context())
                                            : 1;
  setenv("DIT_THREADS", std::to_string(threads).c_str(), 1);  // of the measured rank
  ComputeRates compute{words.flops, words.flops};
  member.barrier();  // ranks that share cores measure at the same time
  member.together([&] {
    if (words.flops <= 0) compute = measure_compute(source.get(), options);
  });
  for (const auto& rank : member.gather_values(std::span<const ComputeRates>(&compute, 1))) {
    compute.linear = std::min(compute.linear, rank[0].linear);
    compute.attention = std::min(compute.attention, rank[0].attention);
  }
  const MeasuredLinks links = measure_links(member.context());
  const std::map<std::string, CodingGain> presets =
      measure_presets(member, options, source.get().config.network->shape().layers());
  member.on_leader([&] {
    std::vector<int> counts = read_counts(words, member.size(), links.ranks_per_node);
    const int ranks_per_node = words.ranks_per_node > 0 ? words.ranks_per_node
                               : links.slow             ? links.ranks_per_node
                                                        : counts.back();
    Machine machine = machine_from(words, compute, links, threads, counts, ranks_per_node);
    for (const auto& [name, gain] : presets) {
      if (counts.back() <= ranks_per_node) continue;  // nothing is slow
      CodingVerdict& verdict = machine.coding[name];
      verdict = {"links between nodes", gain};
      verdict.gain.link_seconds = ranks_per_node / machine.rates.slow.bytes_per_second;
    }
    PlanQuestion question = question_of(source.get().config, options);
    question.rates = machine.rates;
    question.ranks_per_node = ranks_per_node;
    question.predict.progress_cost = words.progress_cost;
    const StepMix mix = question.mix;
    const PlanRows planner(std::move(question));
    const std::vector<PlanRow> rows = planner.rows(counts);
    if (words.json != "-") print(words, machine, options, mix, planner, rows, counts);
    if (!words.json.empty()) write_json(words.json, to_json(machine, rows, counts, policy_label(words)));
  });
}

void declare_policy(CLI::App& app, PolicyWords& words) {
  const std::string group = "A wire policy";
  app.add_option("--quality", words.quality,
                 "find the policy with the fewest bytes of this PSNR, such as 35dB")
      ->transform(decibel_value())
      ->group(group);
  app.add_option("--bytes", words.bytes, "find the best policy with this part of what 16-bit numbers take")
      ->check(number(0.01, 1))
      ->excludes("--quality")
      ->group(group);
  app.add_option("-o,--out", words.out, "where the policy goes (JSON)")->type_name("FILE")->group(group);
  app.add_option("--seeds", words.images, "images that judge it: the next seeds and classes")
      ->check(whole_number(1, 1000))
      ->group(group);
  app.add_option("--momentum", words.momentum,
                 "how far tensors are expected to move on as they did; default: what suits the steps")
      ->check(number(0, 1))
      ->group(group);
}

bool asks_for_policy(const PolicyWords& words) {
  const bool asks = words.quality > 0 || words.bytes > 0;
  if (asks != !words.out.empty()) {
    throw std::invalid_argument(asks ? "a policy is asked for: expected -o FILE for it"
                                     : "-o is for a policy: expected --quality or --bytes");
  }
  return asks;
}

/// On ranks that are threads: a node each, unless there is word of nodes.
void find_policy(const Words& words) {
  PolicyWords policy = words.policy;
  if (!words.ranks.empty()) {
    const std::vector<int> counts = read_counts(words, 1, 1);
    if (counts.size() != 1) {
      throw std::invalid_argument("--ranks is " + words.ranks + ", expected one number for a policy");
    }
    policy.ranks = counts.front();
  }
  if (words.ranks_per_node > 0) policy.ranks_per_node = words.ranks_per_node;
  plan_policy(words.run, policy);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "Predicted step time of schedules, policies and rank counts; measures the links under mpirun.");
  const auto words = std::make_shared<Words>();
  words->run.policy = "v-major";
  declare_model(*command, words->run);
  const std::string machine = "Machine";
  command->add_option("--ranks", words->ranks, "rank counts, such as 1,2,4,8,12")
      ->check(rank_counts(1024))
      ->group(machine);
  command
      ->add_option("--ranks-per-node", words->ranks_per_node,
                   "default: all on one node; under mpirun the job's")
      ->check(whole_number(1, 1024))
      ->group(machine);
  command->add_option("--slow-rate", words->slow_rate, "a node's NIC, such as 100mbit")
      ->transform(rate_value())
      ->group(machine);
  command->add_option("--fast-rate", words->fast_rate, "a rank's links within its node, such as 20GB")
      ->transform(rate_value())
      ->group(machine);
  command->add_option("--latency", words->latency, "of a message between nodes (default 50us)")
      ->transform(duration_value())
      ->group(machine);
  command->add_option("--fast-latency", words->fast_latency, "of a message within a node (default 5us)")
      ->transform(duration_value())
      ->group(machine);
  command
      ->add_option("--flops", words->flops, "what a rank computes, such as 50gflops; default: measured here")
      ->transform(flops_value())
      ->group(machine);
  command
      ->add_option("--threads", words->job.threads,
                   "compute threads of the rank that is measured (default 1)")
      ->check(whole_number(1, 1024))
      ->group(machine);
  command
      ->add_option("--slots", words->slots,
                   "ranks that can compute at once, where they share cores (default: all)")
      ->check(number(0, 1024))
      ->group(machine);
  command
      ->add_option("--progress-cost", words->progress_cost,
                   "share of computing that exchanges under way take, 0 to 1")
      ->check(number(0, 1))
      ->group(machine);
  command
      ->add_flag("--two-level", words->two_level,
                 "exchanges of libtapa: within nodes first, then one message a node")
      ->group(machine);
  command->add_option("--plugin", words->job.plugin, "whose links are measured under mpirun")->group(machine);
  const std::string run = "Run";
  command->add_option("--policy", words->run.policy, "of the rows beside the exact ones, as of generate")
      ->capture_default_str()
      ->group(run);
  command->add_option("--guidance-mode", words->run.guidance_mode, "batched, sequential, parallel or auto")
      ->group(run);
  command
      ->add_option("--head-groups", words->run.head_groups,
                   "parts of the heads that travel apart (default 1)")
      ->check(whole_number(1, 1024))
      ->group(run);
  command->add_option("--beyond-heads", words->run.beyond_heads, "more ranks than heads: gather or refuse")
      ->group(run);
  command->add_option("--dtype", words->run.dtype, "fp32, bf16 or fp64")->capture_default_str()->group(run);
  command->add_flag("--explain", words->explain, "time lines of the schedules on the best rank count");
  command->add_option("--json", words->json, "report; - for the standard output")->type_name("FILE");
  declare_policy(*command, words->policy);
  command->callback([words] {
    if (asks_for_policy(words->policy)) {
      return find_policy(*words);
    }
    ModelSource source(words->run.model);
    run_job(plan_job(words->job), [&](Member& member) { plan_on(member, *words, source); });
  });
}

}  // namespace dit::tool
