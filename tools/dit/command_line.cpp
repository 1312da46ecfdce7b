#include "command_line.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "commands.hpp"
#include "failure.hpp"
#include "launch.hpp"
#include "version_flag.hpp"

namespace dit::tool {

namespace {

/// Every rank of a job parses the same words, so a mistake in them is everybody's: the first rank says it,
/// and the launcher then ends the others. A rank that is still there after a while was the only one, and
/// speaks.
void say_once(const std::string& line) {
  const auto launch = launch_from_environment();
  if (launch && launch->rank > 0) {
    std::this_thread::sleep_for(time_for_rank_0());
    say("rank " + std::to_string(launch->rank) + ": " + line);
  } else {
    say(line);
  }
}

constexpr const char* commands = "generate, plan, profile, check, compare, inspect, bench, sim";

/// Words that nothing takes, with what would be taken.
[[noreturn]] void refuse_rest(const CLI::App& app) {
  const auto called = app.get_subcommands();
  const CLI::App& place = called.empty() ? app : *called.front();
  std::string rest;
  for (const std::string& word : place.remaining()) rest += (rest.empty() ? "" : " ") + word;
  if (called.empty()) throw std::invalid_argument("no command \"" + rest + "\", expected one of " + commands);
  const std::string command = "dit " + place.get_name();
  throw std::invalid_argument(command + " takes no \"" + rest + "\", expected what " + command +
                              " --help lists");
}

/// CLI11's words for a value's type, which its validators already name.
void shorten_types(CLI::App& app) {
  for (const char* type : {"INT", "UINT", "INT:N", "UINT:N"}) app.get_formatter()->label(type, "N");
  for (const char* type : {"FLOAT", "FLOAT:X"}) app.get_formatter()->label(type, "X");
  for (const std::string type : {"BYTES", "RATE", "TIME", "FLOPS", "SIZE", "N,...", "WORD,..."}) {
    for (const std::string base : {"TEXT:", "UINT:", "FLOAT:"}) app.get_formatter()->label(base + type, type);
  }
}

void parse_and_run(CLI::App& app, int argc, const char* const* argv) {
  app.require_subcommand(0, 1);        // none is told below, in our words
  app.option_defaults()->take_last();  // scripts add to a common list of options
  add_generate_command(app);
  add_plan_command(app);
  add_profile_command(app);
  add_check_command(app);
  add_compare_command(app);
  add_inspect_command(app);
  add_bench_command(app);
  add_sim_command(app);
  try {
    tapa::parse_words(app, argc, argv);
  } catch (const CLI::ExtrasError&) {
    refuse_rest(app);
  }
  if (app.get_subcommands().empty()) {
    throw std::invalid_argument(std::string("no command, expected one of ") + commands);
  }
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app(
      "Images from diffusion transformers, on one rank or many. dit COMMAND --help lists its options.",
      "dit");
  tapa::add_version_flag(app);
  shorten_types(app);
  try {
    parse_and_run(app, argc, argv);
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (...) {
    const Verdict verdict = verdict_of(std::current_exception());
    if (!verdict.said) say_once(verdict.line);
    return verdict.status;
  }
}

}  // namespace dit::tool
