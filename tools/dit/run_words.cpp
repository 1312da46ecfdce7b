#include "run_words.hpp"

#include <ATen/Context.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "quantity.hpp"
#include "validators.hpp"
#include "wire/wire_policy_file.hpp"

namespace dit::tool {

namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::string& expected) {
  throw std::invalid_argument(option + " is \"" + value + "\", expected " + expected);
}

at::ScalarType read_dtype(const std::string& text) {
  if (text == "fp32") return at::kFloat;
  if (text == "bf16") return at::kBFloat16;
  if (text == "fp64") return at::kDouble;
  refuse("--dtype", text, "fp32, bf16 or fp64");
}

at::Device read_device(const std::string& text) {
  const std::string kind = text.substr(0, text.find(':'));
  if (kind != "cpu" && kind != "cuda") refuse("--device", text, "cpu, cuda or cuda:N");
  try {
    const at::Device device(text);
    if (device.is_cuda() && !at::hasCUDA())
      refuse("--device", text, "cpu: this libtorch finds no CUDA device");
    return device;
  } catch (const c10::Error&) {
    refuse("--device", text, "cpu, cuda or cuda:N");
  }
}

BeyondHeads read_beyond(const std::string& text) {
  if (text == "gather") return BeyondHeads::gather_kv;
  if (text == "refuse") return BeyondHeads::refuse;
  refuse("--beyond-heads", text, "gather or refuse");
}

}  // namespace

void declare_model(CLI::App& app, RunWords& words) {
  const std::string group = "Image";
  app.add_option("--model", words.model, "folder with config.json and weights; default: the embedded model")
      ->check(any_but_empty("a folder"))
      ->type_name("DIR")
      ->group(group);
  app.add_option("--class", words.label, "class by name or number (default 0); dit inspect lists them")
      ->group(group);
  app.add_option("--seed", words.seed, "seed of the noise (default 0)")
      ->check(whole_number(0, INT64_MAX))
      ->group(group);
  app.add_option("--size", words.size, "pixels, as N or HEIGHTxWIDTH; default: the model's first")
      ->check(image_size())
      ->group(group);
  app.add_option("--steps", words.steps, "sampling steps; default: the model's")
      ->check(whole_number(1, 10'000))
      ->group(group);
  app.add_option("--guidance", words.guidance, "guidance scale, 1: none; default: the model's")
      ->check(number(0, 1000))
      ->group(group);
  app.add_option("--sampler", words.sampler, "flow-euler, ddim or dpm++2m; default: the model's")
      ->group(group);
  app.add_option("--shift", words.shift, "flow-euler: static shift of the times (default 1)")
      ->check(number(0.01, 100))
      ->group(group);
}

void declare_coding(CLI::App& app, RunWords& words) {
  app.add_option("--coding", words.coding,
                 "auto: presets send in full on links, measured, on which coding takes longer than it saves; "
                 "always: as the preset says. Policy files and rows of V-Major are taken as they are")
      ->check(CLI::IsMember({"auto", "always"}))
      ->capture_default_str()
      ->group("Run");
}

void declare_run(CLI::App& app, RunWords& words) {
  const std::string group = "Run";
  declare_coding(app, words);
  app.add_option("--schedule", words.schedule,
                 "flat, v-first, pipelined or auto: what is predicted to be fastest")
      ->capture_default_str()
      ->group(group);
  app.add_option("--head-groups", words.head_groups,
                 "parts of the heads that travel apart; default: as --schedule needs")
      ->check(whole_number(1, 1024))
      ->group(group);
  app.add_option("--guidance-mode", words.guidance_mode, "batched, sequential, parallel or auto")
      ->capture_default_str()
      ->group(group);
  app.add_option("--policy", words.policy,
                 "exact, bf16, int8, fp8, fine, good, balanced, fast, draft, displaced, paper or "
                 "v-major[:warmup=5,refresh=10,"
                 "ratio=linear,boundary=LEVEL,format=[residual-]FORMAT], or a policy file (FILE.json)")
      ->capture_default_str()
      ->group(group);
  app.add_option("--cache-budget", words.cache_budget, "most cache bytes of a rank, such as 2GiB")
      ->transform(bytes_value())
      ->group(group);
  app.add_option("--beyond-heads", words.beyond_heads,
                 "more ranks than heads: gather (keys and values) or refuse")
      ->capture_default_str()
      ->group(group);
  app.add_option("--dtype", words.dtype, "type of computing and sending: fp32, bf16 or fp64")
      ->capture_default_str()
      ->group(group);
  app.add_option("--device", words.device, "cpu, cuda or cuda:N")->capture_default_str()->group(group);
}

void PolicyChoice::apply(GenerateOptions& options) const {
  options.wire = wire && !wire->rules.empty() ? wire : std::nullopt;
  if (v_major) options.wire = wire_policy_of(*v_major, options.sampler.steps);
  if (!preset.empty()) options.wire = wire_preset(preset, options.sampler.steps);
  options.step_cache = step_cache;
}

namespace {

constexpr std::string_view step_cache_word = "step-cache:";

double read_threshold(const std::string& text) {
  const std::string digits = text.substr(step_cache_word.size());
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !(value > 0 && value <= 1000)) {
    refuse("--policy", text, "step-cache:THRESHOLD, more than 0, such as step-cache:0.1");
  }
  return value;
}

}  // namespace

PolicyChoice parse_policy(const std::string& text) {
  PolicyChoice choice;
  const std::size_t plus = text.rfind("+step-cache:");
  if (plus != std::string::npos || text.starts_with(step_cache_word)) {
    choice = plus != std::string::npos ? parse_policy(text.substr(0, plus)) : choice;
    choice.step_cache = read_threshold(plus != std::string::npos ? text.substr(plus + 1) : text);
    return choice;
  }
  if (text == "v-major" || text.starts_with("v-major:")) {
    choice.v_major = parse_v_major(text);
    return choice;
  }
  if (text == "paper") {
    choice.v_major = published_v_major();
    return choice;
  }
  if (text.find('/') != std::string::npos || text.ends_with(".json")) {
    choice.wire = read_wire_policy(text);
    return choice;
  }
  std::string names;
  for (const std::string& name : wire_preset_names()) {
    if (name == text) {
      if (name != "exact") choice.preset = name;
      return choice;
    }
    names += name + ", ";
  }
  refuse("--policy", text,
         names + "paper, step-cache:THRESHOLD, v-major[:key=value,...] or a policy file (FILE.json)");
}

std::string policy_text(const PolicyChoice& policy) {
  if (policy.step_cache > 0) {
    PolicyChoice rest = policy;
    rest.step_cache = 0;
    const std::string cache = std::string(step_cache_word) + figure(policy.step_cache);
    return rest.exact() ? cache : policy_text(rest) + "+" + cache;
  }
  if (policy.v_major) return to_string(*policy.v_major);
  if (policy.exact()) return "exact";
  if (!policy.preset.empty()) return policy.preset;
  return policy.wire->name.empty() ? "wire policy" : policy.wire->name;
}

std::string policy_text(const GenerateOptions& options) {
  return policy_text(PolicyChoice{{}, "", options.wire, options.step_cache});
}

std::string short_text(const PolicyChoice& policy) {
  return policy.v_major ? "v-major" : policy_text(policy);
}

std::optional<GuidanceMode> parse_mode_or_auto(const std::string& text) {
  if (text == "auto") return std::nullopt;
  return parse_guidance_mode(text);
}

std::optional<Schedule> parse_schedule_or_auto(const std::string& text) {
  if (text == "auto") return std::nullopt;
  return parse_schedule(text);
}

GenerateOptions read_run(const RunWords& words, const ModelConfig& config) {
  GenerateOptions options;
  options.label = class_named(config, words.label);
  options.seed = words.seed;
  const ImageSize size = words.size.empty()
                             ? ImageSize{config.trained_sizes.front(), config.trained_sizes.front()}
                             : parse_size(words.size);
  options.height = size.height;
  options.width = size.width;
  if (!words.sampler.empty()) options.sampler.kind = parse_sampler(words.sampler);
  options.sampler.steps = words.steps > 0 ? words.steps : config.steps;
  if (words.shift && options.sampler.kind != SamplerKind::flow_match_euler)
    refuse("--shift", figure(*words.shift),
           std::string("--sampler flow-euler with it, not ") + to_string(options.sampler.kind));
  options.sampler.shift = words.shift.value_or(1);
  options.guidance = words.guidance.value_or(config.guidance);
  parse_policy(words.policy).apply(options);
  options.cache_budget = words.cache_budget;
  options.beyond_heads = read_beyond(words.beyond_heads);
  options.dtype = read_dtype(words.dtype);
  options.device = read_device(words.device);
  return options;
}

const LoadedModel& ModelSource::get() {
  const std::lock_guard lock(mutex_);
  if (!model_) model_ = load_model(folder_);
  return *model_;
}

}  // namespace dit::tool
