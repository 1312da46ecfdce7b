// dit-conformance: does an exchange plugin do what dit/exchange.h says? Run it as the plugin's jobs are run:
//   mpirun -n 4 dit-conformance --plugin mpi
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "checks.hpp"
#include "exchange/local/local_ranks.hpp"
#include "version_flag.hpp"

namespace {

struct Arguments {
  std::string plugin;
  std::string config;
  double timeout_seconds = 60;
  dit::LocalGroupOptions local;
};

void describe(CLI::App& app, Arguments& a) {
  app.add_option("--plugin", a.plugin,
                 "name (libdit-exchange-NAME.so on the search path) or path of a plugin")
      ->required();
  app.add_option("--config", a.config, "the plugin's settings: key=value,key=value");
  app.add_option("--timeout", a.timeout_seconds, "seconds after which a wait fails, 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--ranks", a.local.ranks, "with --plugin local: number of threads");
  app.add_option("--ranks-per-node", a.local.ranks_per_node, "with --plugin local: threads that make a node");
}

std::string line(const dit::conformance::Result& result) {
  std::string text = (result.passed() ? "ok    " : "FAIL  ") + result.name;
  if (!result.passed()) text += ": " + result.problem;
  if (!result.note.empty()) text += "  [" + result.note + "]";
  return text;
}

// Runs all checks on one rank; returns how many failed. A plugin that is beyond use ends the job.
int run(dit::ExchangeContext& context) {
  const bool speaks = context.rank() == 0;
  int passed = 0, failed = 0;
  for (const dit::conformance::Check& check : dit::conformance::all_checks()) {
    try {
      const dit::conformance::Result result = run_check(check, context);
      ++(result.passed() ? passed : failed);
      if (speaks) std::cout << line(result) << std::endl;
    } catch (const dit::ExchangeError& error) {
      std::cerr << "FAIL  rank " << context.rank() << ": " << error.what() << "\nthe checks end here"
                << std::endl;
      context.abort_job(1);
    }
  }
  if (speaks) std::cout << passed << " passed, " << failed << " failed" << std::endl;
  return failed;
}

int run(const Arguments& a) {
  if (a.plugin == "local") {
    dit::LocalGroupOptions options = a.local;
    options.timeout_seconds = a.timeout_seconds;
    int failed = 0;
    dit::run_local_ranks(options, [&](dit::ExchangeContext& context) {
      const int mine = run(context);
      if (context.rank() == 0) failed = mine;
    });
    return failed;
  }
  const dit::ExchangePlugin plugin = dit::ExchangePlugin::load(a.plugin);
  dit::ExchangeContext context(plugin, {nullptr, a.timeout_seconds, a.config});
  const int failed = run(context);
  context.close();
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Checks an exchange plugin against dit/exchange.h. Every rank of the job runs this program.",
               "dit-conformance");
  tapa::add_version_flag(app);
  describe(app, arguments);
  try {
    tapa::parse_words(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  try {
    return run(arguments) == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "dit-conformance: " << error.what() << std::endl;
    return 2;
  }
}
