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
#include "train.hpp"

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

void parse_and_run(CLI::App& app, int argc, const char* const* argv) {
  app.require_subcommand(0, 1);        // none is told below, in our words
  app.option_defaults()->take_last();  // scripts add to a common list of options
  add_generate_command(app);
  add_plan_command(app);
  add_check_command(app);
  add_compare_command(app);
  add_inspect_command(app);
  add_train_command(app);
  add_evaluate_command(app);
  add_bench_command(app);
  app.parse(argc, argv);
  if (app.get_subcommands().empty()) {
    throw std::invalid_argument(
        "no command, expected one of generate, plan, check, compare, inspect, train, evaluate, bench");
  }
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app(
      "Images from diffusion transformers, on one rank or many: generate, plan, check, compare, inspect, "
      "train, bench.",
      "dit");
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
