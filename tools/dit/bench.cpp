// dit bench: policies x schedules x plugins on the same seeds, in one job.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <thread>

#include "bench_rows.hpp"
#include "commands.hpp"
#include "field.hpp"
#include "files.hpp"
#include "job.hpp"
#include "profile/image.hpp"
#include "quantity.hpp"
#include "report.hpp"
#include "run_words.hpp"
#include "timed_steps.hpp"
#include "trace_file.hpp"
#include "validators.hpp"
#include "weights/safetensors.hpp"

namespace dit::tool {

namespace {

struct Words {
  RunWords run;
  JobWords job;
  std::string rows, policies;
  int repeat = 1;
  int images = 1;
  int timed_steps = 0;  ///< of each kind; 0: all steps
  std::string json, plot, folder, fields, trace;
  bool quiet = false;
};

/// All that one rank keeps while rows run.
class Bench {
 public:
  Bench(const Member& member, const Words& words, const JobPlan& job, std::vector<BenchRow> rows,
        ModelSource& source)
      : member_(member),
        words_(words),
        links_are_real_(job.links_are_real()),
        rows_(std::move(rows)),
        runs_(rows_.size()),
        images_(rows_.size()) {
    member_.on_leader([&] {
      require_outputs({{"--json", words_.json}, {"--plot", words_.plot}, {"--trace", words_.trace}});
      require_folder("--images", words_.folder);
      require_folder("--fields", words_.fields);
    });
    member_.together([&] {
      base_ = read_run(words_.run, source.get().config);
      model_ = &source.get();
    });
    for (const BenchRow& row : rows_) open(row.plugin);
    for (const BenchRow& row : rows_) member_.together([&] { engine(row).check(options_of(row, 0)); });
  }

  void run() {
    judge_coding();
    warm_up();
    for (int image = 0; image < words_.images; ++image) {
      for (int repeat = 0; repeat < words_.repeat; ++repeat) {
        for (std::size_t row = 0; row < rows_.size(); ++row) run_row(row, image, repeat);
      }
    }
    find_reference();
  }

  /// On rank 0.
  [[nodiscard]] std::vector<BenchResult> results() const {
    std::vector<BenchResult> results;
    const std::optional<std::size_t> flat = flat_row();
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      BenchResult result = conclude(rows_[row], runs_[row]);
      for (std::size_t i = 0; i < reference_.size(); ++i) {
        result.quality.push_back(quality(images_[row][i], reference_[i], field_range));
        result.images.push_back({options_of(rows_[row], static_cast<int>(i)).seed,
                                 options_of(rows_[row], static_cast<int>(i)).label});
      }
      if (flat) result.ratio_to_flat = ratio(runs_[*flat], runs_[row]);
      results.push_back(std::move(result));
    }
    return results;
  }

  [[nodiscard]] const GenerateOptions& base() const { return base_; }
  [[nodiscard]] const LoadedModel& model() const { return *model_; }

  /// Each row's images as files, and all of them in a grid: a line for each image, a column for each row.
  void write_pictures(const std::filesystem::path& folder) const {
    std::vector<Image> cells;
    for (std::size_t i = 0; i < reference_.size(); ++i) {
      for (std::size_t row = 0; row < rows_.size(); ++row) {
        cells.push_back(picture(images_[row][i], model_->config));
        const std::string number = reference_.size() > 1 ? "-" + std::to_string(i) : "";
        write_png(folder / (file_word(rows_[row].name) + number + ".png"), cells.back());
      }
    }
    write_png(folder / "grid.png", grid(cells, static_cast<std::int64_t>(rows_.size())));
  }

  /// Each row's fields in model units, [images, channels, height, width], as ROW.safetensors.
  void write_fields(const std::filesystem::path& folder) const {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const auto images = static_cast<std::int64_t>(images_[row].size());
      at::Tensor labels = at::empty({images}, at::kFloat);
      for (std::int64_t i = 0; i < images; ++i) {
        labels[i] = options_of(rows_[row], static_cast<int>(i)).label;
      }
      write_safetensors(folder / (file_word(rows_[row].name) + ".safetensors"),
                        {{"fields", at::stack(images_[row])}, {"classes", labels}},
                        {{"row", rows_[row].name}});
    }
  }

  [[nodiscard]] static std::string file_word(const std::string& name) {
    std::string word;
    for (const char c : name) word += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ? c : '_';
    return word;
  }

 private:
  void open(const std::string& plugin) {
    if (engines_.contains(plugin)) return;
    member_.together([&] { engines_.emplace(plugin, Engine(*model_, member_.context(plugin))); });
  }
  [[nodiscard]] Engine& engine(const BenchRow& row) { return engines_.at(row.plugin); }

  /// The first image is the command line's; the others take the next seeds and, in turn, the other classes.
  [[nodiscard]] GenerateOptions options_of(const BenchRow& row, int image) const {
    GenerateOptions options = base_;
    options.seed += static_cast<std::uint64_t>(image);
    options.label = static_cast<int>((options.label + image) % model_->config.network->shape().classes);
    options.schedule = row.schedule.value_or(Schedule::flat);
    options.guidance_mode =
        row.guidance_mode ? row.guidance_mode : parse_mode_or_auto(words_.run.guidance_mode);
    options.head_groups = row.head_groups;
    row.policy.apply(options);
    if (!row.policy.preset.empty() && options.wire) options.wire->off = levels_off(row.coding);
    if (words_.timed_steps > 0) options.step_cache = 0;  // whether it reuses a step only all steps can tell
    return options;
  }

  /// Presets of other rows than the baseline are left off where they do not pay.
  void judge_coding() {
    if (words_.run.coding != "auto") return;
    CodingJudge judge(member_, model_->config.network->shape().layers());
    for (BenchRow& row : rows_) {
      if (row.policy.preset.empty() || row.schedule == Schedule::flat) continue;
      row.coding = judge.judge(options_of(row, 0), row.plugin, links_are_real_);
    }
  }

  /// Lets every row run a few steps: memory is touched, connections are open, and the fastest exact schedule
  /// is known.
  void warm_up() {
    const int steps = std::min(words_.timed_steps > 0 ? 1 : 3, base_.sampler.steps);
    std::map<std::string, std::pair<double, std::size_t>> fastest;  // by plugin
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].schedule) continue;
      GenerateOptions options = options_of(rows_[i], 0);
      options.sampler.steps = steps;
      const RunSummary summary = summarise(member_, engine(rows_[i]).generate(options).report);
      const double seconds = *std::min_element(summary.step_ms.begin(), summary.step_ms.end());
      const auto [best, first] = fastest.try_emplace(rows_[i].plugin, seconds, i);
      if (!rows_[i].policy.exact()) continue;
      if (first || seconds < best->second.first) best->second = {seconds, i};
    }
    for (BenchRow& row : rows_) {
      if (row.schedule) continue;
      const auto best = fastest.find(row.plugin);
      row.schedule = best == fastest.end() ? Schedule::v_first : *rows_[best->second.second].schedule;
      if (best != fastest.end()) row.head_groups = rows_[best->second.second].head_groups;
    }
  }

  [[nodiscard]] std::vector<std::uint64_t> sent(const ExchangeContext* context) const {
    const dit_exchange_totals totals = context->totals();
    return {std::begin(totals.sent_bytes), std::end(totals.sent_bytes)};
  }

  void run_row(std::size_t index, int image, int repeat) {
    const BenchRow& row = rows_[index];
    const ExchangeContext* context = member_.context(row.plugin);
    const auto before = context != nullptr ? sent(context) : std::vector<std::uint64_t>();
    member_.barrier();
    GenerateOptions options = options_of(row, image);
    const std::vector<int> kinds = step_kinds(options, model_->config.network->shape().layers());
    if (words_.timed_steps > 0) options.only_steps = steps_to_time(kinds, words_.timed_steps);
    const GenerateResult result = engine(row).generate(options);
    const auto after = context != nullptr ? sent(context) : std::vector<std::uint64_t>();
    const bool all = options.only_steps.empty();
    BenchRun run{
        image,
        summarise(member_, all ? result.report : whole_report(result.report, kinds, options.only_steps)),
        {},
        result.report.rows_by_age};
    if (context != nullptr && all)
      run.level_bytes = level_bytes(*context, before, after, base_.sampler.steps);
    if (!words_.trace.empty() && image + 1 == words_.images && repeat + 1 == words_.repeat)
      write_trace(row, result);
    if (!member_.leads()) return;
    if (repeat == 0) images_[index].push_back(result.image);
    if (!words_.quiet) {
      std::cerr << "image " << image + 1 << " of " << words_.images << ", run " << repeat + 1 << " of "
                << words_.repeat << ", " << row.name << ": " << figure(run.summary.seconds) << " s"
                << std::endl;
    }
    runs_[index].push_back(std::move(run));
  }

  /// Bytes a step that all ranks together sent to peers of each level.
  [[nodiscard]] std::map<std::string, double> level_bytes(const ExchangeContext& context,
                                                          const std::vector<std::uint64_t>& before,
                                                          const std::vector<std::uint64_t>& after,
                                                          int steps) const {
    std::vector<std::uint64_t> own(before.size());
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = after[i] - before[i];
    std::map<std::string, double> bytes;
    const std::vector<std::string> names = context.levels();
    for (const auto& rank : member_.gather_values(std::span<const std::uint64_t>(own))) {
      for (std::size_t i = 0; i < std::min(names.size(), rank.size()); ++i) {
        bytes[names[i]] += static_cast<double>(rank[i]) / steps;
      }
    }
    return bytes;
  }

  /// FILE.json -> FILE-row.json.
  void write_trace(const BenchRow& row, const GenerateResult& result) const {
    const std::string text = joint_trace(member_, result);
    const std::filesystem::path base = words_.trace;
    const std::string name = base.stem().string() + "-" + file_word(row.name) + base.extension().string();
    member_.on_leader([&] { write_text(base.parent_path() / name, text); });
  }

  /// The flat row over the plainest plugin: the first one of schedule flat that sends 16-bit numbers, or else
  /// without a policy.
  [[nodiscard]] std::optional<std::size_t> flat_row() const {
    for (const char* policy : {"bf16", "exact"}) {
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (rows_[i].schedule == Schedule::flat && policy_text(rows_[i].policy) == policy) return i;
      }
    }
    return std::nullopt;
  }

  /// Exact images: those of the first exact row, or of runs that nobody times.
  void find_reference() {
    if (words_.timed_steps > 0) return;  // images of a few steps are not worth judging
    const auto exact =
        std::find_if(rows_.begin(), rows_.end(), [](const BenchRow& row) { return row.policy.exact(); });
    if (exact != rows_.end()) {
      reference_ = images_[static_cast<std::size_t>(exact - rows_.begin())];
      return;
    }
    BenchRow row = rows_.front();
    row.policy = {};
    for (int image = 0; image < words_.images; ++image) {
      reference_.push_back(engine(row).generate(options_of(row, image)).image);
    }
  }

  const Member& member_;
  const Words& words_;
  bool links_are_real_;  ///< not the memory of threads
  std::vector<BenchRow> rows_;
  std::vector<std::vector<BenchRun>> runs_;      ///< by row
  std::vector<std::vector<at::Tensor>> images_;  ///< by row and image
  std::vector<at::Tensor> reference_;            ///< by image
  GenerateOptions base_;
  const LoadedModel* model_ = nullptr;
  std::map<std::string, Engine> engines_;
};

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

nlohmann::ordered_json machine_json(const Member& member, const JobPlan& job) {
  nlohmann::ordered_json json = {
      {"processor", processor_name()}, {"cores", std::thread::hardware_concurrency()}, {"ranks", job.ranks}};
  if (job.ranks_per_node > 0) json["ranks_per_node"] = job.ranks_per_node;
  if (job.rate > 0) json["emulated_bytes_per_second"] = job.rate;
  if (member.context() != nullptr) json["exchange"] = member.context()->describe();
  return json;
}

nlohmann::ordered_json model_json(const Bench& bench, const Words& words) {
  const GenerateOptions& base = bench.base();
  const ModelShape& shape = bench.model().config.network->shape();
  return {{"origin", bench.model().origin},
          {"layers", shape.layers()},
          {"width", shape.width},
          {"heads", shape.attention.heads},
          {"height", base.height},
          {"width_pixels", base.width},
          {"steps", base.sampler.steps},
          {"guidance", base.guidance},
          {"dtype", at::toString(base.dtype)},
          {"seed", base.seed},
          {"class", base.label},
          {"images", words.images},
          {"timed_steps", words.timed_steps},
          {"repeat", words.repeat}};
}

void write_results(const Member& member, const Words& words, const JobPlan& job, const Bench& bench) {
  const std::vector<BenchResult> results = bench.results();
  const GenerateOptions& base = bench.base();
  const std::string title = std::to_string(base.height) + "x" + std::to_string(base.width) + ", " +
                            counted(base.sampler.steps, "step") + ", " + counted(job.ranks, "rank");
  if (words.json != "-") std::cout << title << "\n\n" << bench_table(results) << std::flush;
  if (!words.plot.empty()) write_text(words.plot, bench_svg(results, "dit bench: " + title));
  if (!words.folder.empty()) bench.write_pictures(words.folder);
  if (!words.fields.empty()) bench.write_fields(words.fields);
  if (words.json.empty()) return;
  const nlohmann::ordered_json json = {{"machine", machine_json(member, job)},
                                       {"model", model_json(bench, words)},
                                       {"rows", bench_json(results)}};
  write_json(words.json, json);
}

bool loads(const std::string& plugin) {
  try {
    static_cast<void>(ExchangePlugin::load(plugin));
    return true;
  } catch (const ExchangeError&) {
    return false;
  }
}

void bench(const Words& words) {
  JobPlan job = plan_job(words.job);
  // The baseline is MPI's own blocking call, which knows no limit.
  if (!words.job.timeout) job.unlimited = "mpi";
  const bool has_tapa = !job.local && loads("tapa");
  const std::vector<BenchRow> defaults = default_rows(job.plugin, has_tapa);
  const std::vector<BenchRow> rows = !words.policies.empty()
                                         ? policy_rows(words.policies, job.plugin, has_tapa)
                                     : words.rows.empty() ? defaults
                                                          : parse_rows(words.rows, defaults);
  std::vector<std::string> more;
  for (const BenchRow& row : rows) {
    if (job.local != (row.plugin == "local")) {
      throw std::invalid_argument(
          "--rows: " + row.name + " has plugin " + row.plugin + ", expected " +
          (job.local ? "local: other plugins join the processes of a job (start it by mpirun)"
                     : "one that joins the processes of this job, such as mpi or tapa"));
    }
    if (row.plugin != job.plugin && std::find(more.begin(), more.end(), row.plugin) == more.end()) {
      more.push_back(row.plugin);
    }
  }
  ModelSource source(words.run.model);
  run_job(job, more, [&](Member& member) {
    Bench bench(member, words, job, rows, source);
    bench.run();
    member.on_leader([&] { write_results(member, words, job, bench); });
  });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Plugins x schedules x policies on the same seeds, in one job.");
  const auto words = std::make_shared<Words>();
  declare_model(*command, words->run);
  declare(*command, words->job);
  const std::string group = "Bench";
  command
      ->add_option(
          "--rows", words->rows,
          "name=plugin/schedule/policy[/guidance-mode[/head-groups]];..., or names of the default rows")
      ->group(group);
  command
      ->add_option("--guidance-mode", words->run.guidance_mode,
                   "of rows that name none: batched, sequential, parallel or auto")
      ->group(group);
  command
      ->add_option(
          "--policies", words->policies,
          "instead of rows: a row for each of these policies, such as exact,paper,balanced,fast or a "
          "FILE.json, beside flat with 16-bit numbers; also POLICY/GUIDANCE-MODE; rivals: "
          "bf16,fp8,paper,displaced,bf16+step-cache:0.15,bf16/parallel")
      ->excludes("--rows")
      ->group(group);
  declare_coding(*command, words->run);
  command->add_option("--repeat", words->repeat, "runs of each row and image, interleaved")
      ->check(whole_number(1, 1000))
      ->capture_default_str()
      ->group(group);
  command->add_option("--seeds", words->images, "images: the next seeds and, in turn, the next classes")
      ->check(whole_number(1, 10'000))
      ->capture_default_str()
      ->group(group);
  command->add_option("--cache-budget", words->run.cache_budget, "most cache bytes of a rank, such as 2GiB")
      ->transform(bytes_value())
      ->group(group);
  command->add_option("--beyond-heads", words->run.beyond_heads, "more ranks than heads: gather or refuse")
      ->group(group);
  command->add_option("--dtype", words->run.dtype, "fp32, bf16 or fp64")->capture_default_str()->group(group);
  command->add_option("--device", words->run.device, "cpu, cuda or cuda:N")
      ->capture_default_str()
      ->group(group);
  command->add_option("--json", words->json, "the table as JSON; - for the standard output")
      ->type_name("FILE")
      ->group(group);
  command->add_option("--plot", words->plot, "the table as a picture (SVG)")->type_name("FILE")->group(group);
  command->add_option("--images", words->folder, "each row's images and a grid of them")
      ->type_name("DIR")
      ->group(group);
  command->add_option("--fields", words->fields, "each row's fields in model units, as ROW.safetensors")
      ->type_name("DIR")
      ->group(group);
  command
      ->add_option("--timed-steps", words->timed_steps,
                   "times from so many steps of each kind (those with the same wire modes), spread over the "
                   "image, instead of all; images are then not judged")
      ->check(whole_number(1, 10'000))
      ->group(group);
  command->add_option("--trace", words->trace, "Chrome traces of the last runs: FILE-ROW.json")
      ->type_name("FILE")
      ->group(group);
  command->add_flag("--quiet", words->quiet, "no line for each run")->group(group);
  command->callback([words] { bench(*words); });
}

}  // namespace dit::tool
