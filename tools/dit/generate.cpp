// dit generate: an image of a class, from a seed.
#include <CLI/CLI.hpp>
#include <iostream>
#include <map>

#include "choose.hpp"
#include "coding.hpp"
#include "commands.hpp"
#include "engine/engine.hpp"
#include "field.hpp"
#include "files.hpp"
#include "job.hpp"
#include "profile/image.hpp"
#include "progress.hpp"
#include "quantity.hpp"
#include "report.hpp"
#include "run_words.hpp"
#include "trace_file.hpp"

namespace dit::tool {

namespace {

struct Words {
  RunWords run;
  JobWords job;
  std::string out;
  std::string latents;
  std::string json;
  std::string trace;
  bool quiet = false;
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

/// What made an image, for its file. The same run gives the same text: no times, no host names.
std::map<std::string, std::string> parameters(const GenerateOptions& options, const LoadedModel& model,
                                              const JobPlan& job) {
  std::map<std::string, std::string> run = {
      {"Software", "dit"},
      {"model", model.origin},
      {"class", std::to_string(options.label)},
      {"class_name", model.config.class_names.at(static_cast<std::size_t>(options.label))},
      {"seed", std::to_string(options.seed)},
      {"size", std::to_string(options.height) + "x" + std::to_string(options.width)},
      {"steps", std::to_string(options.sampler.steps)},
      {"sampler", to_string(options.sampler.kind)},
      {"guidance", figure(options.guidance)},
      {"guidance_mode", options.guidance_mode ? to_string(*options.guidance_mode) : "auto"},
      {"schedule", to_string(options.schedule)},
      {"policy", policy_text(options)},
      {"dtype", at::toString(options.dtype)},
      {"plugin", job.plugin},
      {"ranks", std::to_string(job.ranks)}};
  if (options.wire && !options.wire->off.empty()) run["off"] = joined(options.wire->off);
  return run;
}

std::string closing_line(const Words& words, const std::map<std::string, std::string>& run,
                         const RunSummary& summary) {
  std::string line = words.out.empty() ? "" : words.out + ": ";
  line += run.at("class_name") + ", seed " + run.at("seed") + ", " + run.at("size") + ", " + run.at("steps") +
          (run.at("steps") == "1" ? " step in " : " steps in ") + figure(summary.seconds) + " s (" +
          figure(median(summary.step_ms)) + " ms a step";
  if (run.at("ranks") != "1") {
    line += ", of it " + figure(median(summary.exposed_ms)) + " ms exposed exchange; " + run.at("ranks") +
            " ranks, " + run.at("plugin") + ", " + run.at("schedule") + ", " + run.at("policy");
  }
  line += ")";
  if (summary.slow_bytes > 0) line += ", " + bytes_text(summary.slow_bytes) + " a step between nodes";
  if (summary.cache_bytes > 0)
    line += ", " + bytes_text(static_cast<double>(summary.cache_bytes)) + " of cache a rank";
  return line;
}

void write_results(const Words& words, const std::map<std::string, std::string>& run,
                   const LoadedModel& model, const GenerateResult& result, const RunSummary& summary,
                   const std::vector<CodingVerdict>& coding, const std::string& trace) {
  if (!words.out.empty()) write_png(words.out, picture(result.image, model.config), run);
  if (!words.latents.empty()) {
    auto text = run;
    text["range"] = figure(field_range);
    write_field(words.latents, result.image, text);
  }
  if (!words.trace.empty()) write_text(words.trace, trace);
  if (!words.json.empty()) {
    nlohmann::ordered_json json = run;
    json["coding"] = to_json(coding);
    json.update(to_json(summary));
    write_json(words.json, json);
  }
  if (!words.quiet && words.json != "-") std::cout << closing_line(words, run, summary) << std::endl;
}

/// Leaves a preset off where it does not pay.
std::vector<CodingVerdict> judge_coding(const Member& member, const Words& words, const JobPlan& job,
                                        GenerateOptions& options, ModelSource& source) {
  if (words.run.coding != "auto" || parse_policy(words.run.policy).preset.empty()) return {};
  CodingJudge judge(member, source.get().config.network->shape().layers());
  std::vector<CodingVerdict> coding = judge.judge(options, job.plugin, job.links_are_real());
  options.wire->off = levels_off(coding);
  if (member.leads() && !words.quiet) {
    for (const CodingVerdict& verdict : coding) {
      if (!verdict.gain.pays()) std::cerr << verdict_text(options.wire->name, verdict) << std::endl;
    }
  }
  return coding;
}

/// What the policy will remember is known before anything is allocated.
void announce_memory(const Member& member, const Engine& engine, const GenerateOptions& options) {
  const std::uint64_t bytes = engine.cache_for(options).total();
  if (!member.leads() || bytes == 0) return;
  std::cerr << policy_text(options) << " will remember " << bytes_text(static_cast<double>(bytes))
            << " on this rank"
            << (options.cache_budget
                    ? ", of a budget of " + bytes_text(static_cast<double>(*options.cache_budget))
                    : "")
            << std::endl;
}

/// What one rank does.
void generate_on(const Member& member, const Words& words, const JobPlan& job, ModelSource& source) {
  GenerateOptions options;
  std::optional<Engine> engine;
  member.on_leader([&] {
    require_outputs({{"-o", words.out, FileKind::picture},
                     {"--save-latents", words.latents, FileKind::binary},
                     {"--json", words.json},
                     {"--trace", words.trace}});
  });
  member.together([&] { options = read_run(words.run, source.get().config); });
  member.together([&] { engine.emplace(source.get(), member.context()); });
  const std::vector<CodingVerdict> coding = judge_coding(member, words, job, options, source);
  options = choose(member, words.run, options, *engine).options;
  if (!words.quiet) announce_memory(member, *engine, options);
  ProgressLine progress("dit", member.leads() && !words.quiet);
  const GenerateResult result = engine->generate(options, progress.callback());
  const RunSummary summary = summarise(member, result.report);
  const std::string trace = words.trace.empty() ? "" : joint_trace(member, result);
  member.on_leader([&] {
    write_results(words, parameters(options, source.get(), job), source.get(), result, summary, coding,
                  trace);
  });
}

}  // namespace

void add_generate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "An image of a class, from a seed.");
  const auto words = std::make_shared<Words>();
  declare_model(*command, words->run);
  declare_run(*command, words->run);
  declare(*command, words->job);
  command->add_option("-o,--out", words->out, "PNG to write")->type_name("FILE");
  command->add_option("--save-latents", words->latents, "the field itself, as safetensors")
      ->type_name("FILE");
  command->add_option("--json", words->json, "report of times and bytes; - for the standard output")
      ->type_name("FILE");
  command->add_option("--trace", words->trace, "time lines of all ranks as a Chrome trace")
      ->type_name("FILE");
  command->add_flag("--quiet", words->quiet, "no progress, no closing line");
  command->callback([words] {
    if (words->out.empty() && words->latents.empty() && words->json.empty() && words->trace.empty()) {
      throw std::invalid_argument("nothing to write: expected -o FILE, --save-latents, --json or --trace");
    }
    const JobPlan job = plan_job(words->job);
    ModelSource source(words->run.model);
    run_job(job, [&](Member& member) { generate_on(member, *words, job, source); });
  });
}

}  // namespace dit::tool
