// dit: images from diffusion transformers on one rank or many, and what it takes to judge them.
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <thread>

#include "commands.hpp"
#include "failure.hpp"
#include "launch.hpp"
#include "train.hpp"

namespace {

/// Every rank of a job parses the same words, so a mistake in them is everybody's: the first rank says it,
/// and the launcher then ends the others. A rank that is still there after a while was the only one, and
/// speaks.
void say_once(const std::string& line) {
  const auto launch = dit::tool::launch_from_environment();
  if (launch && launch->rank > 0) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    dit::tool::say("rank " + std::to_string(launch->rank) + ": " + line);
  } else {
    dit::tool::say(line);
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Tensors come and go at every operation: their pages stay with the program instead of being cleared anew
  // each time.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  CLI::App app(
      "Images from diffusion transformers, on one rank or many: generate, plan, check, compare, inspect, "
      "train, bench.",
      "dit");
  app.require_subcommand(0, 1);        // none is told below, in our words
  app.option_defaults()->take_last();  // scripts add to a common list of options
  try {
    dit::tool::add_generate_command(app);
    dit::tool::add_plan_command(app);
    dit::tool::add_check_command(app);
    dit::tool::add_compare_command(app);
    dit::tool::add_inspect_command(app);
    dit::add_train_command(app);
    dit::add_evaluate_command(app);
    dit::tool::add_bench_command(app);
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) {
      throw std::invalid_argument(
          "no command, expected one of generate, plan, check, compare, inspect, train, evaluate, bench");
    }
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (...) {
    const dit::tool::Verdict verdict = dit::tool::verdict_of(std::current_exception());
    if (!verdict.said) say_once(verdict.line);
    return verdict.status;
  }
}
