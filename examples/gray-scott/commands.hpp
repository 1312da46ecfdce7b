/// The commands of gray-scott. Each adds itself with its options; its callback does the work, and throws what
/// run() reports.
#pragma once

namespace CLI {
class App;
}

namespace dit::gray_scott {

void add_train_command(CLI::App& app);
void add_evaluate_command(CLI::App& app);
void add_field_command(CLI::App& app);

/// Carries out a command line and says what went wrong, if anything. Returns the exit status.
[[nodiscard]] int run(int argc, const char* const* argv);

}  // namespace dit::gray_scott
