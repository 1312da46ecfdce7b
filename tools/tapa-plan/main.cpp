// tapa-plan: makes the plan of an all-to-all on any machine and says what it does, without MPI.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <numeric>
#include <stdexcept>

#include "explain/explain.hpp"
#include "explain/explain_shared.hpp"
#include "plan/choose.hpp"
#include "plan/planner.hpp"
#include "report.hpp"
#include "request.hpp"
#include "version_flag.hpp"
#include "write_file.hpp"

namespace tapa::plan_tool {

namespace {

constexpr int kDefectFound = 1;
constexpr int kBadInput = 2;

struct Options {
  Words words;
  bool json = false;
  bool svg = false;
  std::string svg_file;
  bool steps = false;
  std::optional<int> rank;
  bool compare = false;
  bool verify = false;
};

void declare(CLI::App& app, Options& o) {
  app.add_option("--topology", o.words.topology,
                 "factors from slow to fast (2x2x3), a machine (aurora), or a topology file")
      ->required();
  app.add_option("--ranks", o.words.ranks, "number of ranks, for machines; default: one full node");
  app.add_option("--placement", o.words.placement, "how ranks go to nodes: block or round-robin")
      ->capture_default_str();
  app.add_option("--bytes", o.words.bytes, "bytes of each block, or a list: 512,64K,1M")
      ->capture_default_str();
  app.add_option("--counts", o.words.counts_file,
                 "file with the bytes of every block, a row for each source (all-to-all-v)");
  app.add_option("--plan", o.words.plan,
                 "the whole choice as text, as in TAPA_PLAN; default: what the library chooses");
  const auto setting = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)->group("Single settings of the choice");
  };
  setting("--algorithm", o.words.algorithm, "linear, pairwise, bruck, tapa or leaders");
  setting("--split", o.words.split, "levels whose groups are cut, fast to slow: node, or tile,node");
  setting("--leaders", o.words.leaders, "leaders of a group, or all");
  setting("--local", o.words.local, "leaders: blocks inside a group go direct or by the leader");
  setting("--radix", o.words.radix, "radix of bruck; with --split between groups");
  setting("--window", o.words.window, "linear: sends in flight");
  setting("--order", o.words.order, "tapa: fast-first or slow-first");
  setting("--fast", o.words.fast, "exchange inside a group: linear, linear(W), pairwise, bruck(R)");
  setting("--slow", o.words.slow, "exchange between groups, the same");
  setting("--pipeline", o.words.pipeline, "sub-messages that a fast message is cut into");
  app.add_flag("--json", o.json, "JSON, schema tapa-plan/1; an array for several sizes");
  app.add_option("--svg", o.svg_file, "picture of who sends to whom, to a file or to the standard output")
      ->expected(0, 1)
      ->type_name("[FILE]");
  app.add_flag("--steps", o.steps, "list the steps of every rank");
  app.add_option("--rank", o.rank, "list the steps of this rank");
  app.add_flag("--compare", o.compare, "all candidates of the library side by side");
  app.add_flag("--verify", o.verify, "replay the plan; status 1 when it has a defect");
}

class Program {
 public:
  explicit Program(Options options)
      : options_(std::move(options)),
        topology_(read_topology_words(options_.words)),
        rates_(rates_from(topology_)),
        sizes_(read_sizes(options_.words.bytes)),
        choice_(read_choice(options_.words)) {
    if (!options_.words.counts_file.empty()) {
      counts_ = read_counts(options_.words.counts_file, topology_.ranks);
      sizes_ = {mean_bytes()};
    }
    if (options_.rank && (*options_.rank < 0 || *options_.rank >= topology_.ranks)) {
      throw std::invalid_argument("--rank is " + std::to_string(*options_.rank) + ", expected 0 to " +
                                  std::to_string(topology_.ranks - 1));
    }
    if (options_.svg && sizes_.size() > 1)
      throw std::invalid_argument("--svg shows one size, expected one in --bytes");
    if (options_.svg && options_.compare)
      throw std::invalid_argument("--svg shows one plan, expected no --compare");
  }

  int run() {
    std::vector<std::string> parts;
    for (const std::size_t bytes : sizes_) parts.push_back(options_.compare ? compare(bytes) : show(bytes));
    print(parts);
    return defect_found_ ? kDefectFound : 0;
  }

 private:
  [[nodiscard]] Counts counts(std::size_t bytes) const {
    return counts_ ? *counts_ : Counts::uniform(topology_.ranks, bytes);
  }

  [[nodiscard]] std::optional<std::size_t> block_bytes(std::size_t bytes) const {
    return counts_ ? std::nullopt : std::optional(bytes);
  }

  /// What the library prices an all-to-all-v with.
  [[nodiscard]] std::size_t mean_bytes() const {
    std::size_t sum = 0;
    for (int src = 0; src < topology_.ranks; ++src) {
      for (int dst = 0; dst < topology_.ranks; ++dst) sum += counts_->bytes(src, dst);
    }
    const auto ranks = static_cast<std::size_t>(topology_.ranks);
    return sum / (ranks * ranks);
  }

  [[nodiscard]] std::vector<Candidate> ranked(std::size_t bytes) const {
    return rank_candidates(topology_, rates_, {}, bytes, {false, true});
  }

  std::string show(std::size_t bytes) {
    const std::vector<Candidate> best = ranked(bytes);
    const Choice choice = choice_.value_or(best.front().choice);
    const std::string reason = choice_ ? "asked for; the library would take: " + why(best) : why(best);
    if (choice.algorithm == Algorithm::memory) return show_shared(bytes, reason);
    Shown shown{block_bytes(bytes), reason, make_plan(topology_, counts(bytes), choice), {}, {}};
    shown.cost = cost_of(shown.plan, topology_, rates_);
    if (options_.verify) {
      shown.defects = verify(shown.plan, counts(bytes));
      defect_found_ = defect_found_ || !shown.defects->empty();
    }
    const auto picture = [&] { return explain_svg(shown.plan, topology_, shown.cost); };
    if (options_.svg && options_.svg_file.empty()) return picture();
    if (options_.svg) write_file("--svg", options_.svg_file, picture());
    return options_.json ? json_of(shown, topology_, options_.steps) : text_of(shown, topology_, listed());
  }

  /// Plan `memory`: the other executor's, without steps or messages.
  std::string show_shared(std::size_t bytes, const std::string& reason) {
    const Counts blocks = counts(bytes);
    const ShownShared shown{block_bytes(bytes), reason, blocks, priced(parse_choice("memory"), bytes),
                            options_.verify};
    const auto picture = [&] { return explain_shared_svg(blocks, topology_, shown.seconds); };
    if (options_.svg && options_.svg_file.empty()) return picture();
    if (options_.svg) write_file("--svg", options_.svg_file, picture());
    return options_.json ? json_of(shown, topology_, options_.steps) : text_of(shown, topology_, listed());
  }

  [[nodiscard]] double priced(const Choice& choice, std::size_t bytes) const {
    return predict(topology_, rates_, choice, bytes);
  }

  /// Ranks whose steps were asked for.
  [[nodiscard]] std::vector<int> listed() const {
    std::vector<int> ranks;
    if (options_.rank) ranks = {*options_.rank};
    if (options_.steps) {
      ranks.resize(static_cast<std::size_t>(topology_.ranks));
      std::iota(ranks.begin(), ranks.end(), 0);
    }
    return ranks;
  }

  std::string compare(std::size_t bytes) {
    std::vector<Candidate> list = ranked(bytes);
    const std::string reason = why(list);
    const auto same = [&](const Candidate& c) { return c.choice == *choice_; };
    if (choice_ && std::none_of(list.begin(), list.end(), same)) {
      list.insert(list.begin(), {*choice_, priced(*choice_, bytes), false});
    }
    std::vector<Row> rows;
    for (const Candidate& candidate : list) rows.push_back(row_of(candidate, bytes));
    if (options_.json) return compare_json(rows, topology_, reason, block_bytes(bytes));
    return compare_text(rows, topology_, reason);
  }

  Row row_of(const Candidate& candidate, std::size_t bytes) {
    if (candidate.choice.algorithm == Algorithm::memory) return {candidate, {}, 0};
    const Plan plan = make_plan(topology_, counts(bytes), candidate.choice);
    Row row{candidate, cost_of(plan, topology_, rates_), 0};
    for (const RankPlan& rank : plan.of_rank) {
      const auto sends = std::count_if(rank.steps.begin(), rank.steps.end(),
                                       [](const Step& s) { return s.kind == StepKind::send; });
      row.sends = std::max(row.sends, static_cast<std::size_t>(sends));
    }
    if (options_.verify && !verify(plan, counts(bytes)).empty()) {
      std::cerr << "tapa-plan: " << plan.choice << " has a defect, see tapa-plan --plan " << plan.choice
                << " --verify\n";
      defect_found_ = true;
    }
    return row;
  }

  void print(const std::vector<std::string>& parts) const {
    const bool list = options_.json && parts.size() > 1;
    if (list) std::cout << "[\n";
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) std::cout << (list ? ",\n" : "\n");
      std::cout << parts[i];
    }
    if (options_.json) std::cout << (list ? "\n]\n" : "\n");
    std::cout.flush();
  }

  Options options_;
  Topology topology_;
  Rates rates_;
  std::vector<std::size_t> sizes_;
  std::optional<Choice> choice_;
  std::optional<Counts> counts_;
  bool defect_found_ = false;
};

}  // namespace

}  // namespace tapa::plan_tool

int main(int argc, char** argv) {
  using namespace tapa::plan_tool;
  CLI::App app(
      "Plan of an all-to-all on any machine: phases, messages and bytes per level and NIC, predicted time.",
      "tapa-plan");
  tapa::add_version_flag(app);
  Options options;
  declare(app, options);
  try {
    tapa::parse_words(app, argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::cerr << "tapa-plan: " << error.what() << "\n";
    return kBadInput;
  }
  options.svg = app.count("--svg") > 0;
  try {
    return Program(std::move(options)).run();
  } catch (const std::invalid_argument& error) {
    std::cerr << "tapa-plan: " << error.what() << "\n";
    return kBadInput;
  }
}
