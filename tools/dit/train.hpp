/// @file
/// The subcommands about the model that the library holds: making it, and measuring how good it is.
#pragma once

#include <CLI/CLI.hpp>

namespace dit {

void add_train_command(CLI::App& app);
void add_evaluate_command(CLI::App& app);

}  // namespace dit
