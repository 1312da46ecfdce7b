/// @file
/// The subcommands of dit. Each adds itself with its options; its callback does the work, and throws what
/// main reports.
#pragma once

namespace CLI {
class App;
}

namespace dit::tool {

void add_generate_command(CLI::App& app);
void add_plan_command(CLI::App& app);
void add_profile_command(CLI::App& app);
void add_check_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_sim_command(CLI::App& app);

}  // namespace dit::tool
