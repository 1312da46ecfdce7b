// dit check: the same image on one rank and on several, layer by layer.
#include <iostream>
#include <map>
#include <mutex>

#include "commands.hpp"
#include "failure.hpp"
#include "files.hpp"
#include "job.hpp"
#include "quantity.hpp"
#include "run_words.hpp"
#include "text_table.hpp"

namespace dit::tool {

namespace {

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
    GenerateResult result = engine->generate(options);
    outcomes.push_back({result.image, std::move(result.layers)});
  }
  return outcomes;
}

void print(const Words& words, const std::vector<Line>& lines) {
  std::vector<std::string> heads = {"largest (relative) difference to one rank"};
  for (const Line& line : lines) heads.push_back(std::to_string(line.ranks) + " " + to_string(line.schedule));
  TextTable table(heads);
  const auto cell = [](const Distance& d) { return figure(d.largest) + " (" + figure(d.relative) + ")"; };
  for (std::size_t layer = 0; layer < lines.front().layers.size(); ++layer) {
    std::vector<std::string> row = {"layer " + std::to_string(layer)};
    for (const Line& line : lines) row.push_back(cell(line.layers[layer]));
    table.add(row);
  }
  std::vector<std::string> image = {"image"};
  std::vector<std::string> equal = {"image equals flat's on these ranks"};
  for (const Line& line : lines) {
    image.push_back(cell(line.image));
    equal.push_back(line.equals_flat ? "yes" : "NO");
  }
  table.add(image);
  table.add(equal);
  if (words.json != "-") std::cout << table.text() << std::flush;
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

/// Prints the lines; throws Failure when a difference is above the tolerance or a schedule changed bits.
void conclude(const Words& words, const std::vector<Line>& lines) {
  std::string worst;
  double largest = 0;
  const auto consider = [&](const Distance& d, const Line& line, const std::string& where) {
    if (d.relative <= largest && d.relative == d.relative) return;
    largest = d.relative == d.relative ? d.relative : std::numeric_limits<double>::infinity();
    worst = where + " on " + std::to_string(line.ranks) + " ranks, " + to_string(line.schedule);
  };
  std::string changed;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.layers.size(); ++i)
      consider(line.layers[i], line, "layer " + std::to_string(i));
    consider(line.image, line, "the image");
    if (!line.equals_flat)
      changed = std::string(to_string(line.schedule)) + " on " + std::to_string(line.ranks) + " ranks";
  }
  const bool good = largest <= words.tolerance && changed.empty();
  print(words, lines);
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
    if (*schedule != Schedule::flat) schedules.push_back(*schedule);
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
  conclude(words, lines);
}

/// The processes of a job against a run of its first rank alone.
void check_job(const Words& words, const std::vector<Schedule>& schedules, const JobPlan& job) {
  ModelSource source(words.run.model);
  run_job(job, [&](Member& member) {
    member.on_leader([&] { require_writable("--json", words.json); });
    const std::vector<Outcome> outcomes = run_schedules(member, words, schedules, source);
    member.on_leader([&] {
      const Outcome one = run_schedules(Member({}), words, {Schedule::flat}, source).front();
      std::vector<Line> lines;
      for (std::size_t i = 0; i < schedules.size(); ++i) {
        lines.push_back(judge(member.size(), schedules[i], outcomes[i], one, outcomes.front()));
      }
      conclude(words, lines);
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
          ->capture_default_str();
  command->add_option("--schedules", words->schedules, "schedules to check")->capture_default_str();
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
    std::vector<int> counts;
    try {
      counts = parse_numbers(words->ranks, 1, 64);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(std::string("--ranks: ") + error.what());
    }
    const JobPlan job = plan_job(words->job);
    if (job.local) {
      require_writable("--json", words->json);
      return check_threads(*words, schedules, counts);
    }
    if (ranks->count() > 0)
      throw std::invalid_argument("--ranks is for threads, but this job has its processes: leave it out");
    check_job(*words, schedules, job);
  });
}

}  // namespace dit::tool
