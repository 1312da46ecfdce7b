// gray-scott field: a simulated field, as a picture or in numbers.
#include <CLI/CLI.hpp>
#include <memory>
#include <stdexcept>
#include <string>

#include "commands.hpp"
#include "evaluation_sheet.hpp"
#include "files.hpp"
#include "gray_scott.hpp"
#include "quantity.hpp"
#include "trainer.hpp"
#include "validators.hpp"
#include "weights/safetensors.hpp"

namespace dit::gray_scott {
namespace {

using namespace tool;

struct FieldWords {
  std::string regime = "spots";
  GrayScottOptions options;
  std::string device = "auto";
  std::string out;
  std::string numbers;
};

GrayScottRegime regime_named(const std::string& name) {
  std::string names;
  for (const GrayScottRegime& regime : gray_scott_regimes()) {
    if (regime.name == name) return regime;
    names += (names.empty() ? "" : ", ") + regime.name;
  }
  throw std::invalid_argument("--class is \"" + name + "\", expected one of " + names);
}

void run(const FieldWords& words) {
  const GrayScottRegime regime = regime_named(words.regime);
  if (words.out.empty() && words.numbers.empty()) {
    throw std::invalid_argument("nothing to write: expected -o FILE or --save");
  }
  require_outputs({{"-o", words.out, FileKind::picture}, {"--save", words.numbers, FileKind::binary}});
  const at::Tensor fields =
      simulate_gray_scott(regime, 1, words.options, parse_device(words.device)).to(at::kCPU);
  if (!words.out.empty()) write_png(words.out, field_picture(fields[0]));
  if (!words.numbers.empty())
    write_safetensors(words.numbers, {{"fields", fields}}, {{"class", regime.name}});
}

}  // namespace

void add_field_command(CLI::App& app) {
  const auto words = std::make_shared<FieldWords>();
  GrayScottOptions& o = words->options;
  CLI::App& command = *app.add_subcommand("field", "A simulated field of a class.");
  command.add_option("--class", words->regime, "its name, such as spots or maze")->capture_default_str();
  command.add_option("--size", o.size, "pixels a side")->check(whole_number(8, 1024))->capture_default_str();
  command.add_option("--simulation-steps", o.steps, "of explicit Euler")
      ->check(whole_number(1, 10'000'000))
      ->capture_default_str();
  command.add_option("--seed", o.seed, "of its start")
      ->check(whole_number(0, INT64_MAX))
      ->capture_default_str();
  command.add_option("--device", words->device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  command.add_option("-o,--out", words->out, "PNG of v")->type_name("FILE");
  command.add_option("--save", words->numbers, "u and v, as safetensors: \"fields\", [1, 2, size, size]")
      ->type_name("FILE");
  command.callback([words] { run(*words); });
}

}  // namespace dit::gray_scott
