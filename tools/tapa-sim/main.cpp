// tapa-sim: runs the library's plans and MPI's algorithms on a simulated machine, and compares.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <chrono>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <thread>

#include "known.hpp"
#include "plan/choose.hpp"
#include "plan/planner.hpp"
#include "report.hpp"
#include "request.hpp"
#include "simulate.hpp"
#include "status_line.hpp"
#include "version_flag.hpp"
#include "write_file.hpp"

namespace tapa::sim_tool {

namespace {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;
constexpr double kPlausible = 2;  // times the best prediction
// Rivals that copy all blocks need that many times the blocks' memory.
constexpr std::size_t kCopies = 4;

struct Options {
  Words words;
  std::vector<std::string> known;
  std::string json_file;
  std::string plot_file;
};

void declare(CLI::App& app, Options& o) {
  Words& w = o.words;
  app.add_option("machine", w.machine, "machine to simulate: a name (see --list) or a file")->required();
  app.add_option("--nodes", w.nodes, "number of nodes; default: about 128 ranks");
  app.add_option("--per-node", w.per_node, "ranks on a node; default: all places");
  app.add_option("--placement", w.placement,
                 "how ranks go to nodes: block, round-robin, or unequal (every second node has two thirds)")
      ->capture_default_str();
  app.add_option("--bytes", w.bytes, "bytes of a block: MIN:MAX in steps of 4, or a list: 8,4K,1M")
      ->capture_default_str();
  app.add_option(
         "--plans", w.plans,
         "all: every candidate of the library; plausible: those predicted within twice the best time; "
         "choice: the library's alone; or plans as in TAPA_PLAN, several after one another")
      ->capture_default_str();
  app.add_option("--rivals", w.rivals,
                 "MPI's selectors and algorithms, as the simulator calls them; none: \"\"")
      ->capture_default_str();
  app.add_option("--jobs", w.jobs, "simulations at once; default: one for each core");
  app.add_option("--memory", w.memory,
                 "GiB for all of them; larger exchanges run without data. Default: half of what is free");
  app.add_option("--known", o.known,
                 "files of --json of earlier runs: what they have of this machine is not simulated again")
      ->type_name("FILE");
  app.add_option("--json", o.json_file, "write the result to a file")->type_name("FILE");
  app.add_option("--plot", o.plot_file, "draw the times, as SVG")->type_name("FILE");
}

std::size_t free_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, rest; file >> key; std::getline(file, rest)) {
    std::size_t kib = 0;
    if (key == "MemAvailable:" && file >> kib) return kib << 10;
  }
  return std::size_t{4} << 30;
}

class ProgressBar {
 public:
  void show(std::size_t done, std::size_t all) const {
    if (!line_.active()) return;
    constexpr std::size_t width = 40;
    const std::size_t full = all == 0 ? 0 : done * width / all;
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_).count();
    line_.show("[" + std::string(full, '#') + std::string(width - full, ' ') + "] " + std::to_string(done) +
               " of " + std::to_string(all) + " exchanges, " + std::to_string(seconds) + " s");
  }

 private:
  StatusLine line_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Program {
 public:
  explicit Program(Options options)
      : options_(std::move(options)),
        simulated_(sim::load_simulated(options_.words.machine)),
        topology_(make_topology(simulated_, options_.words)),
        rates_(rates_from(topology_)),
        sizes_(read_sizes(options_.words.bytes)),
        rivals_(read_rivals(options_.words.rivals)) {
    set_limits();
    require_writable("--json", options_.json_file);
    require_writable("--plot", options_.plot_file);
    begin_report();
    add_plans();
    add_rivals();
  }

  int run() {
    std::optional<ProgressBar> bar(std::in_place);
    sim::Job job;
    job.topology = topology_;
    job.parameters = simulated_.parameters;
    auto outcomes = simulate(job, simulations_, limits_,
                             [&](std::size_t done, std::size_t all) { bar->show(done, all); });
    repeat_refused(job, outcomes);
    bar.reset();
    collect(outcomes);
    if (failed_) return kFailed;
    std::cout << report_text(report_);
    if (!options_.json_file.empty()) write_file("--json", options_.json_file, report_json(report_));
    if (!options_.plot_file.empty()) write_file("--plot", options_.plot_file, report_svg(report_));
    return 0;
  }

 private:
  void set_limits() {
    const Words& w = options_.words;
    if (w.jobs < 0)
      throw std::invalid_argument("--jobs is " + std::to_string(w.jobs) + ", expected at least 1");
    if (w.memory < 0)
      throw std::invalid_argument("--memory is " + std::to_string(w.memory) + ", expected more than 0");
    limits_.jobs = w.jobs > 0 ? w.jobs : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const double memory = w.memory > 0 ? w.memory * (1 << 30) : static_cast<double>(free_memory()) / 2;
    // Blocks lie in two user buffers, in scratch and staging, and for a while inside the simulator.
    limits_.data_limit = static_cast<std::size_t>(memory / limits_.jobs / 8);
  }

  void begin_report() {
    report_.machine = simulated_.machine.name;
    report_.ranks = topology_.ranks;
    report_.nodes = topology_.nodes();
    report_.placement = options_.words.placement;
    for (const std::size_t bytes : sizes_) {
      Row row;
      row.bytes = bytes;
      row.checked = true;
      ranked_.push_back(rank_candidates(topology_, rates_, {}, bytes, {}));
      row.choice = to_string(ranked_.back().front().choice);
      report_.rows.push_back(std::move(row));
    }
    add_known(report_, options_.known);
  }

  /// Plans to run at each size, each in a simulation of its own.
  void add_plans() {
    std::map<std::string, std::vector<std::size_t>> sizes_of;
    std::vector<std::string> order;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      Row& row = report_.rows[i];
      for (const auto& [known, time] : row.plans) row.predicted[known] = predicted(known, row.bytes);
      for (const Choice& choice : wanted(ranked_[i])) {
        const std::string text = to_string(choice);
        row.predicted[text] = predicted(text, row.bytes);
        if (row.plans.contains(text)) continue;
        if (!sizes_of.contains(text)) order.push_back(text);
        sizes_of[text].push_back(row.bytes);
      }
    }
    for (const std::string& text : order) simulations_.push_back({{text}, sizes_of[text], ""});
  }

  [[nodiscard]] double predicted(const std::string& plan, std::size_t bytes) const {
    return predict(topology_, rates_, parse_choice(plan), bytes) * 1e6;
  }

  [[nodiscard]] std::vector<Choice> wanted(const std::vector<Candidate>& ranked) const {
    std::vector<Choice> list{ranked.front().choice};
    const auto add = [&](const Choice& choice) {
      if (std::find(list.begin(), list.end(), choice) == list.end()) list.push_back(choice);
    };
    for (const std::string& word : options_.words.plans) {
      if (word == "choice") continue;
      if (word == "all" || word == "plausible") {
        for (const Candidate& c : ranked) {
          if (word == "all" || c.seconds <= kPlausible * ranked.front().seconds) add(c.choice);
        }
        continue;
      }
      const Choice choice = parse_choice(word);
      if (const std::string reason = why_not(topology_, choice); !reason.empty())
        throw std::invalid_argument("--plans " + word + ": " + reason);
      if (choice.algorithm == Algorithm::memory)
        throw std::invalid_argument("--plans memory: sends no messages, and only messages are simulated");
      add(choice);
    }
    return list;
  }

  void add_rivals() {
    first_rival_ = simulations_.size();
    for (const std::string& rival : rivals_) {
      std::vector<std::size_t> sizes = sizes_;
      const auto ranks = static_cast<std::size_t>(topology_.ranks);
      if (rival == "bruck" || rival == "rdb")
        std::erase_if(sizes,
                      [&](std::size_t b) { return b > limits_.data_limit / ranks / ranks * 2 / kCopies; });
      std::erase_if(sizes, [&](std::size_t b) { return row_of(b).rivals.contains(rival); });
      if (std::has_single_bit(ranks)) {
        if (!sizes.empty()) simulations_.push_back({{"mpi"}, sizes, rival});
      } else {  // a size that the simulator cannot do ends a simulation, so each has its own
        for (const std::size_t bytes : sizes) simulations_.push_back({{"mpi"}, {bytes}, rival});
      }
    }
  }

  /// Open MPI's and MPICH's pairwise exchanges take any number of ranks: rank i sends to i + k in round k.
  /// The simulator has that as "ring", but its selectors take "pair", which refuses what is no power of two.
  void repeat_refused(const sim::Job& job, std::vector<Outcome>& outcomes) const {
    std::vector<Simulation> rings;
    std::vector<std::size_t> refused;
    for (std::size_t i = first_rival_; i < outcomes.size(); ++i) {
      const bool asked_for = simulations_[i].selector == "pair";
      if (asked_for || outcomes[i].error.find("power of two") == std::string::npos) continue;
      rings.push_back({{"mpi"}, simulations_[i].bytes, "ring"});
      refused.push_back(i);
    }
    std::vector<Outcome> repeated = simulate(job, rings, limits_, [](std::size_t, std::size_t) {});
    for (std::size_t i = 0; i < refused.size(); ++i) outcomes[refused[i]] = std::move(repeated[i]);
  }

  void collect(const std::vector<Outcome>& outcomes) {
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const bool rival = i >= first_rival_;
      const std::string name = rival ? simulations_[i].selector : simulations_[i].contenders.front();
      if (!outcomes[i].error.empty()) {
        std::cerr << "tapa-sim: " << name << ": " << outcomes[i].error << "\n";
        failed_ = failed_ || !rival;
      }
      for (const Result& result : outcomes[i].results) take(name, rival, result);
    }
    if (failed_) return;
    for (Row& row : report_.rows) judge(row);
  }

  void take(const std::string& name, bool rival, const Result& result) {
    Row& row = row_of(result.bytes);
    (rival ? row.rivals : row.plans)[name] = result.seconds * 1e6;
    row.checked = row.checked && result.checked;
    if (name == row.choice) row.busiest_nic_bytes = result.busiest_nic;
    if (result.wrong_bytes > 0) {
      std::cerr << "tapa-sim: " << name << ", " << result.bytes << " B: " << result.wrong_bytes
                << " bytes are wrong\n";
      failed_ = true;
    }
  }

  Row& row_of(std::size_t bytes) {
    return *std::find_if(report_.rows.begin(), report_.rows.end(),
                         [&](const Row& r) { return r.bytes == bytes; });
  }

  static void judge(Row& row) {
    for (const auto& [name, time] : row.plans) {
      if (row.best.empty() || time < row.plans.at(row.best)) row.best = name;
    }
    if (row.plans.contains(row.choice)) row.regret = row.plans.at(row.choice) / row.plans.at(row.best);
  }

  Options options_;
  sim::Simulated simulated_;
  Topology topology_;
  Rates rates_;
  std::vector<std::size_t> sizes_;
  std::vector<std::string> rivals_;
  std::vector<std::vector<Candidate>> ranked_;  // of each size
  Limits limits_;
  std::vector<Simulation> simulations_;
  std::size_t first_rival_ = 0;
  Report report_;
  bool failed_ = false;
};

void list_machines() {
  for (const std::string& name : sim::simulated_machines()) {
    const sim::Simulated machine = sim::load_simulated(name);
    std::cout << name << ": " << machine.machine.description << "\n";
  }
}

}  // namespace

}  // namespace tapa::sim_tool

int main(int argc, char** argv) {
  using namespace tapa::sim_tool;
  CLI::App app("Runs plans of the library and MPI's own algorithms on a simulated machine (SimGrid SMPI).",
               "tapa-sim");
  tapa::add_version_flag(app);
  Options options;
  declare(app, options);
  app.add_flag_callback(
      "--list",
      [] {
        list_machines();
        throw CLI::Success();
      },
      "machines that can be simulated");
  try {
    tapa::parse_words(app, argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::cerr << "tapa-sim: " << error.what() << "\n";
    return kBadInput;
  }
  try {
    return Program(std::move(options)).run();
  } catch (const std::invalid_argument& error) {
    std::cerr << "tapa-sim: " << error.what() << "\n";
    return kBadInput;
  } catch (const std::exception& error) {
    std::cerr << "tapa-sim: " << error.what() << "\n";
    return kFailed;
  }
}
