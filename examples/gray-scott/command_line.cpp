#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>

#include "commands.hpp"
#include "failure.hpp"
#include "version_flag.hpp"

namespace dit::gray_scott {

int run(int argc, const char* const* argv) {
  CLI::App app(
      "Simulated Gray-Scott fields, and a diffusion transformer that is trained on them. gray-scott COMMAND "
      "--help lists its options.",
      "gray-scott");
  tapa::add_version_flag(app);
  app.require_subcommand(0, 1);
  add_train_command(app);
  add_evaluate_command(app);
  add_field_command(app);
  try {
    tapa::parse_words(app, argc, argv);
    if (app.get_subcommands().empty()) {
      throw std::invalid_argument("no command, expected one of train, evaluate, field");
    }
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (...) {
    const tool::Verdict verdict = tool::verdict_of(std::current_exception());
    std::cerr << "gray-scott: " + verdict.line + "\n";
    return verdict.status;
  }
}

}  // namespace dit::gray_scott
