// gray-scott train: makes a model from simulated fields.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "commands.hpp"
#include "files.hpp"
#include "quantity.hpp"
#include "trainer.hpp"
#include "validators.hpp"

namespace dit::gray_scott {
namespace {

using namespace tool;

struct TrainWords {
  TrainOptions options;
  std::vector<std::string> sizes = {"128:160", "256:64"};
  std::int64_t steps = 0;
  double minutes = 0;
  std::string log;
};

/// "128:160": pixels a side, fields of each class.
TrainingSize parse_training_size(const std::string& word) {
  const std::size_t colon = word.find(':');
  const auto number = [&](const std::string& digits) -> std::int64_t {
    if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos) {
      throw std::invalid_argument("--sizes " + word + ": expected PIXELS:FIELDS, such as 128:160");
    }
    return std::stoll(digits);
  };
  return {number(word.substr(0, colon)), number(colon == std::string::npos ? "" : word.substr(colon + 1))};
}

void run(TrainWords words, const CLI::App& command) {
  TrainOptions& options = words.options;
  require_outputs({{"--log", words.log}, {"--state", options.state, FileKind::binary}});
  options.sizes.clear();
  for (const std::string& word : words.sizes) {
    options.sizes.push_back(parse_training_size(word));
  }
  if (command.count("--steps") > 0) {
    options.steps = words.steps;
  }
  if (command.count("--minutes") > 0) {
    options.minutes = words.minutes;
  }
  TrainProgress progress;
  progress.simulating = [](std::int64_t size, const GrayScottRegime& regime) {
    std::fprintf(stderr, "simulating %s, %lldx%lld\n", regime.name.c_str(), static_cast<long long>(size),
                 static_cast<long long>(size));
  };
  progress.trained = [](const LossPoint& p) {
    std::fprintf(stderr, "step %lld  %5.1f %%  %.0f s  loss %.4f  rate %.2e\n",
                 static_cast<long long>(p.step), 100 * p.progress, p.seconds, p.loss, p.learning_rate);
  };
  const TrainReport report = train(options, progress);
  if (!words.log.empty()) {
    write_text(words.log, to_json(report) + "\n");
  }
  std::printf(
      "%lld steps of %lld parameters on %s: simulation %.0f s, training %.0f s, loss %.4f; model in %s\n",
      static_cast<long long>(report.steps - report.first_step), static_cast<long long>(report.parameters),
      report.device.c_str(), report.simulation_seconds, report.training_seconds, report.final_loss,
      options.output.c_str());
}

void declare_network(CLI::App& command, PixelDitConfig& network) {
  const auto add = [&](const std::string& name, std::int64_t& value, const std::string& meaning) {
    command.add_option(name, value, meaning)
        ->check(whole_number(1, 65536))
        ->capture_default_str()
        ->group("Network");
  };
  add("--width", network.width, "width of a token");
  add("--layers", network.layers, "transformer blocks");
  add("--heads", network.heads, "attention heads");
  add("--head-dim", network.head_dim, "width of a head, a multiple of 4");
  add("--patch", network.patch, "pixels a side of a token");
}

}  // namespace

void add_train_command(CLI::App& app) {
  const auto words = std::make_shared<TrainWords>();
  TrainOptions& o = words->options;
  constexpr std::int64_t most = 1'000'000'000;
  CLI::App& command =
      *app.add_subcommand("train", "A class-conditional model from simulated Gray-Scott fields.");
  command.add_option("-o,--output", o.output, "folder that gets config.json and model.safetensors")
      ->type_name("DIR")
      ->required();
  command.add_option("--steps", words->steps, "training steps")->check(whole_number(1, most));
  command.add_option("--minutes", words->minutes, "end, weights written, before so many minutes are over")
      ->check(number(0.001, 1e6));
  command.add_option("--seed", o.seed, "of data, first weights and batches")
      ->check(whole_number(0, INT64_MAX))
      ->capture_default_str();
  command.add_option("--device", o.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("--sizes", words->sizes, "PIXELS:FIELDS PER CLASS; the first alone until --mixed-from")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--simulation-steps", o.simulation_steps, "of each field")
      ->check(whole_number(1, 10'000'000))
      ->capture_default_str();
  command.add_option("--mixed-from", o.mixed_from, "share of the schedule after which all sizes take turns")
      ->check(number(0, 1))
      ->capture_default_str();
  command.add_option("--batch", o.batch, "fields of the first size in a step")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--learning-rate", o.learning_rate, "highest")
      ->check(number(1e-12, 100))
      ->capture_default_str();
  command.add_option("--warmup", o.warmup_steps, "steps until the highest rate")
      ->check(whole_number(0, most))
      ->capture_default_str();
  command.add_option("--drop-labels", o.drop_labels, "share of steps without a class")
      ->check(number(0, 0.999))
      ->capture_default_str();
  command.add_option("--average", o.average, "decay of the average of weights that is kept")
      ->check(number(0, 0.9999999))
      ->capture_default_str();
  command
      .add_option("--state", o.state, "file that carries the state from one run of a schedule to the next")
      ->type_name("FILE");
  command.add_option("--until", o.until, "share of the schedule at which this run ends")
      ->check(number(1e-6, 1))
      ->capture_default_str();
  command.add_option("--log", words->log, "JSON of the loss curve")->type_name("FILE");
  declare_network(command, o.network);
  command.callback([words, &command] { run(*words, command); });
}

}  // namespace dit::gray_scott
