// dit check: the same image on one rank and on several, layer by layer.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <span>

#include "commands.hpp"
#include "failure.hpp"
#include "files.hpp"
#include "job.hpp"
#include "progress.hpp"
#include "quantity.hpp"
#include "run_words.hpp"
#include "text_table.hpp"
#include "validators.hpp"

namespace dit::tool {

namespace {

constexpr int most_threads = 64;

struct Words {
  RunWords run;
  JobWords job;
  std::string ranks = "1,2,3,5";
  std::string schedules = "flat,v-first,pipelined";
  double tolerance = 1e-5;
  std::string json;
};

/// What a run leaves on rank 0.
struct Outcome {
  at::Tensor image;
  std::vector<at::Tensor> layers;
};

/// Largest difference, and the same over the largest value of the reference.
struct Distance {
  double largest = 0;
  double relative = 0;
};

Distance distance(const at::Tensor& value, const at::Tensor& reference) {
  const at::Tensor a = value.to(at::kCPU, at::kDouble);
  const at::Tensor b = reference.to(at::kCPU, at::kDouble);
  Distance result;
  result.largest = (a - b).abs().max().item<double>();
  const double scale = b.abs().max().item<double>();
  result.relative = scale > 0 ? result.largest / scale : result.largest;
  return result;
}

/// One rank count and schedule against one rank.
struct Line {
  int ranks = 1;
  Schedule schedule = Schedule::flat;
  std::vector<Distance> layers;
  Distance image;
  bool equals_flat = true;  ///< bit for bit, on the same ranks
};

Line judge(int ranks, Schedule schedule, const Outcome& run, const Outcome& one, const Outcome& flat) {
  Line line{ranks, schedule, {}, distance(run.image, one.image), at::equal(run.image, flat.image)};
  for (std::size_t i = 0; i < one.layers.size(); ++i)
    line.layers.push_back(distance(run.layers.at(i), one.layers[i]));
  return line;
}

/// Runs the schedules one after the other on all ranks; the outcomes are rank 0's.
std::vector<Outcome> run_schedules(const Member& member, const Words& words,
                                   const std::vector<Schedule>& schedules, ModelSource& source) {
  GenerateOptions options;
  std::optional<Engine> engine;
  member.together([&] {
    options = read_run(words.run, source.get().config);
    options.head_groups = words.run.head_groups > 0 ? words.run.head_groups : 1;
    options.guidance_mode = parse_mode_or_auto(words.run.guidance_mode);
    options.record_layers = true;
    engine.emplace(source.get(), member.context());
    engine->check(options);
  });
  std::vector<Outcome> outcomes;
  for (const Schedule schedule : schedules) {
    options.schedule = schedule;
    ProgressLine progress("dit check, " + counted(member.size(), "rank") + ", " + to_string(schedule),
                          member.leads());
    GenerateResult result = engine->generate(options, progress.callback());
    outcomes.push_back({result.image, std::move(result.layers)});
  }
  return outcomes;
}

/// The lines of one rank count, a line for each schedule.
using Column = std::span<const Line>;

/// "0", "1.2e-07".
std::string cell(double difference) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), difference == 0 ? "0" : "%.1e", difference);
  return text.data();
}

/// The largest of what `get` takes from a column's lines; nan where one is.
template <typename Get>
std::string worst(Column column, Get get) {
  double largest = 0;
  for (const Line& line : column) {
    const double value = get(line);
    if (!(value <= largest)) largest = value;
    if (std::isnan(largest)) break;
  }
  return cell(largest);
}

std::string equals_flat(Column column) {
  std::string others;
  for (const Line& line : column) {
    if (!line.equals_flat) others += (others.empty() ? "NO: " : ", ") + std::string(to_string(line.schedule));
  }
  return others.empty() ? "yes" : others;
}

TextTable table_of(std::span<const Column> columns) {
  std::vector<std::string> heads = {""};
  for (const Column& column : columns) heads.push_back(counted(column.front().ranks, "rank"));
  TextTable table(heads);
  const auto add = [&](const std::string& name, const auto& text) {
    std::vector<std::string> row = {name};
    for (const Column& column : columns) row.push_back(text(column));
    table.add(row);
  };
  for (std::size_t layer = 0; layer < columns.front().front().layers.size(); ++layer) {
    add("layer " + std::to_string(layer), [&](Column column) {
      return worst(column, [&](const Line& line) { return line.layers[layer].relative; });
    });
  }
  add("image",
      [](Column column) { return worst(column, [](const Line& line) { return line.image.relative; }); });
  add("image, absolute",
      [](Column column) { return worst(column, [](const Line& line) { return line.image.largest; }); });
  add("bits of flat", equals_flat);
  return table;
}

/// Tables of as many rank counts as fit in a terminal's line.
void print(const std::vector<Line>& lines, std::size_t schedules) {
  constexpr std::size_t most_columns = 8;
  std::vector<Column> columns;
  for (std::size_t i = 0; i < lines.size(); i += schedules)
    columns.push_back(Column(lines).subspan(i, schedules));
  std::cout << "largest relative difference to one rank of ";
  for (std::size_t i = 0; i < schedules; ++i)
    std::cout << (i == 0 ? "" : ", ") << to_string(lines[i].schedule);
  std::cout << "\n";
  for (std::size_t i = 0; i < columns.size(); i += most_columns) {
    const auto some = std::span(columns).subspan(i, std::min(most_columns, columns.size() - i));
    std::cout << "\n" << table_of(some).text();
  }
  std::cout << std::endl;
}

nlohmann::ordered_json to_json(const Words& words, const std::vector<Line>& lines, bool good) {
  nlohmann::ordered_json json = {{"tolerance", words.tolerance}, {"good", good}};
  json["runs"] = nlohmann::ordered_json::array();
  for (const Line& line : lines) {
    nlohmann::ordered_json run = {
        {"ranks", line.ranks},
        {"schedule", to_string(line.schedule)},
        {"image", {{"largest", line.image.largest}, {"relative", line.image.relative}}},
        {"equals_flat", line.equals_flat}};
    run["layers"] = nlohmann::ordered_json::array();
    for (const Distance& d : line.layers)
      run["layers"].push_back({{"largest", d.largest}, {"relative", d.relative}});
    json["runs"].push_back(run);
  }
  return json;
}

/// Prints the lines, some for each rank count; throws Failure when a difference is above the tolerance or a
/// schedule changed bits.
void conclude(const Words& words, const std::vector<Line>& lines, std::size_t schedules) {
  std::string worst;
  double largest = 0;
  const auto consider = [&](const Distance& d, const Line& line, const std::string& where) {
    if (d.relative <= largest && d.relative == d.relative) return;
    largest = d.relative == d.relative ? d.relative : std::numeric_limits<double>::infinity();
    worst = where + " on " + counted(line.ranks, "rank") + ", " + to_string(line.schedule);
  };
  std::string changed;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.layers.size(); ++i)
      consider(line.layers[i], line, "layer " + std::to_string(i));
    consider(line.image, line, "the image");
    if (!line.equals_flat)
      changed = std::string(to_string(line.schedule)) + " on " + counted(line.ranks, "rank");
  }
  const bool good = largest <= words.tolerance && changed.empty();
  if (words.json != "-") print(lines, schedules);
  if (!words.json.empty()) write_json(words.json, to_json(words, lines, good));
  if (!changed.empty())
    throw Failure(exit_failed, "the image of " + changed + " is not that of flat, expected equal bits");
  if (!good) {
    throw Failure(exit_failed, "relative difference " + figure(largest) + " (" + worst +
                                   "), expected at most " + figure(words.tolerance));
  }
  if (words.json != "-") {
    std::cout << "good: largest relative difference " << figure(largest)
              << (worst.empty() ? "" : " (" + worst + ")") << ", tolerance " << figure(words.tolerance)
              << std::endl;
  }
}

std::vector<Schedule> read_schedules(const Words& words) {
  std::vector<Schedule> schedules = {Schedule::flat};  // the others are compared with it
  for (const std::string& name : parse_words(words.schedules)) {
    const auto schedule = parse_schedule_or_auto(name);
    if (!schedule) throw std::invalid_argument("--schedules has auto, expected flat, v-first or pipelined");
    if (std::find(schedules.begin(), schedules.end(), *schedule) == schedules.end())
      schedules.push_back(*schedule);
  }
  return schedules;
}

/// Threads of this process: each rank count in turn.
void check_threads(const Words& words, const std::vector<Schedule>& schedules,
                   const std::vector<int>& counts) {
  ModelSource source(words.run.model);
  const auto outcomes_on = [&](int ranks, const std::vector<Schedule>& list) {
    JobWords job = words.job;
    job.ranks = ranks;
    std::vector<Outcome> outcomes;
    run_job(plan_job(job), [&](Member& member) {
      std::vector<Outcome> own = run_schedules(member, words, list, source);
      if (member.leads()) outcomes = std::move(own);
    });
    return outcomes;
  };
  const Outcome one = outcomes_on(1, {Schedule::flat}).front();
  std::vector<Line> lines;
  for (const int ranks : counts) {
    const std::vector<Outcome> outcomes = outcomes_on(ranks, schedules);
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      lines.push_back(judge(ranks, schedules[i], outcomes[i], one, outcomes.front()));
    }
  }
  conclude(words, lines, schedules.size());
}

/// The processes of a job against a run of its first rank alone.
void check_job(const Words& words, const std::vector<Schedule>& schedules, const JobPlan& job) {
  ModelSource source(words.run.model);
  run_job(job, [&](Member& member) {
    member.on_leader([&] { require_outputs({{"--json", words.json}}); });
    const std::vector<Outcome> outcomes = run_schedules(member, words, schedules, source);
    member.on_leader([&] {
      const Outcome one = run_schedules(Member({}), words, {Schedule::flat}, source).front();
      std::vector<Line> lines;
      for (std::size_t i = 0; i < schedules.size(); ++i) {
        lines.push_back(judge(member.size(), schedules[i], outcomes[i], one, outcomes.front()));
      }
      conclude(words, lines, schedules.size());
    });
  });
}

}  // namespace

void add_check_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("check", "The same image on one rank and on several, layer by layer.");
  const auto words = std::make_shared<Words>();
  words->run.steps = 2;
  declare_model(*command, words->run);
  declare(*command, words->job);
  command->remove_option(command->get_option("--ranks"));
  const CLI::Option* ranks =
      command->add_option("--ranks", words->ranks, "rank counts (threads); under mpirun: the job's")
          ->check(rank_counts(most_threads))
          ->capture_default_str();
  command->add_option("--schedules", words->schedules, "schedules to check")
      ->check(comma_words())
      ->capture_default_str();
  command->add_option("--guidance-mode", words->run.guidance_mode, "batched, sequential, parallel or auto");
  command
      ->add_option("--head-groups", words->run.head_groups,
                   "parts of the heads that travel apart (default 1)")
      ->check(whole_number(1, 1024));
  command->add_option("--beyond-heads", words->run.beyond_heads, "more ranks than heads: gather or refuse")
      ->capture_default_str();
  command->add_option("--dtype", words->run.dtype, "fp32, bf16 or fp64")->capture_default_str();
  command->add_option("--tolerance", words->tolerance, "largest relative difference")
      ->check(number(0, 1))
      ->capture_default_str();
  command->add_option("--json", words->json, "report; - for the standard output")->type_name("FILE");
  command->callback([words, ranks] {
    const std::vector<Schedule> schedules = read_schedules(*words);
    const JobPlan job = plan_job(words->job);
    if (job.local) {
      require_outputs({{"--json", words->json}});
      return check_threads(*words, schedules, parse_rank_counts(words->ranks, most_threads));
    }
    if (ranks->count() > 0)
      throw std::invalid_argument("--ranks is for threads, but this job has its processes: leave it out");
    check_job(*words, schedules, job);
  });
}

}  // namespace dit::tool
