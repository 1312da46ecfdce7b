#include "engine/run_shape.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "transfer/active_rows.hpp"
#include "transfer/wire_run.hpp"
#include "wire/wire_policy_file.hpp"

namespace dit {
namespace {

constexpr std::int64_t kMostPixels = 16384;  // of a side
constexpr double kMostGuidance = 1000.0;

template <class Value>
[[noreturn]] void refuse(const char* name, const Value& value, const std::string& expected) {
  std::ostringstream text;
  text << name << " = " << value << ": expected " << expected;
  throw std::invalid_argument(text.str());
}

void check_side(const char* name, std::int64_t pixels, std::int64_t patch) {
  if (pixels < patch || pixels > kMostPixels || pixels % patch != 0) {
    refuse(name, pixels,
           "a multiple of the patch size " + std::to_string(patch) + ", from " + std::to_string(patch) +
               " to " + std::to_string(kMostPixels));
  }
}

void check_type(const GenerateOptions& options, int ranks) {
  const bool cpu = options.device.is_cpu();
  if (!cpu && ranks > 1) {
    refuse("device", options.device.str(),
           "cpu with " + std::to_string(ranks) +
               " ranks: exchanges are from host memory; other devices work on one rank");
  }
  const at::ScalarType type = options.dtype;
  const bool known =
      type == at::kFloat || type == at::kBFloat16 || type == at::kDouble || (!cpu && type == at::kHalf);
  if (!known) {
    refuse("dtype", c10::toString(type),
           cpu ? "Float, BFloat16 or Double on a CPU" : "Float, BFloat16, Half or Double");
  }
}

void check_only_steps(const std::vector<int>& only, int steps) {
  for (std::size_t i = 0; i < only.size(); ++i) {
    const bool first = i == 0 ? only[i] == 0 : only[i] > only[i - 1];
    if (!first || only[i] >= steps) {
      refuse("only_steps", only[i], "0 first, then ascending and less than " + std::to_string(steps));
    }
  }
}

void check_groups(const UlyssesLayout& layout, int groups) {
  std::int64_t most = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    most = std::max(most, layout.heads(rank).size());
  }
  if (groups < 1 || groups > most) {
    refuse("head_groups", groups, "1 to " + std::to_string(most) + ", the heads of a rank");
  }
}

/// The wire policy on these ranks.
WirePlan plan_of(const ModelShape& model, const GenerateOptions& options, const ExchangeContext& context) {
  return {*options.wire, {model.layers(), options.sampler.steps, context.levels(), context.slow_level()}};
}

bool touches_links(const WirePlan& plan) {
  for (int level = 0; level < static_cast<int>(plan.shape().levels.size()); ++level) {
    for (int layer = 0; layer < plan.shape().layers; ++layer) {
      for (const AttentionTensor tensor :
           {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value, AttentionTensor::output}) {
        if (plan.touches(tensor, level, layer)) {
          return true;
        }
      }
    }
  }
  return false;
}

void check_wire(const ModelShape& model, const RunShape& shape, const GenerateOptions& options,
                const ExchangeContext* context) {
  if (options.dtype != at::kFloat && options.dtype != at::kBFloat16) {
    refuse("dtype", c10::toString(options.dtype), "Float or BFloat16 with a wire policy");
  }
  check(*options.wire);
  if (context == nullptr) {
    return;
  }
  if (plan_of(model, options, *context).knows_branches() && shape.attention.batch > 1) {
    refuse("guidance_mode", to_string(shape.mode),
           "sequential or parallel for a wire policy with rules of one branch");
  }
}

/// Of the rank that needs most, so that all ranks say the same.
CacheBytes largest_cache(const ModelShape& model, const RunShape& shape, const GenerateOptions& options) {
  CacheBytes largest;
  for (int rank = 0; rank < shape.layout_ranks; ++rank) {
    const CacheBytes bytes = cache_of(model, shape, options, rank);
    if (bytes.total() > largest.total()) {
      largest = bytes;
    }
  }
  return largest;
}

void require_memory_budget(std::uint64_t bytes, std::optional<std::uint64_t> budget) {
  if (budget && bytes > *budget) {
    throw std::length_error(
        "the wire policy remembers up to " + std::to_string(bytes) + " bytes on a rank, the budget is " +
        std::to_string(*budget) +
        ": expected more ranks, one guidance branch per group of ranks, a policy that remembers less (no "
        "momentum, no residuals, no rows that stay), a smaller image, or a budget of at least " +
        std::to_string(bytes));
  }
}

void print(std::ostream& text, const SamplerOptions& sampler) {
  text << to_string(sampler.kind) << ' ' << sampler.steps << ' ' << sampler.shift << ' '
       << sampler.dynamic_shift << ' ' << sampler.base_shift << ' ' << sampler.max_shift << ' '
       << sampler.base_tokens << ' ' << sampler.max_tokens << ' ' << sampler.image_tokens << ' '
       << sampler.shift_terminal << ' ' << sampler.diffusers_sigma_min;
}

}  // namespace

RunShape shape_of(const ModelShape& model, const GenerateOptions& options, int ranks) {
  check_side("height", options.height, model.patch);
  check_side("width", options.width, model.patch);
  RunShape shape;
  shape.columns = options.width / model.patch;
  shape.tokens = options.height / model.patch * shape.columns;
  shape.guided = options.guidance != 1.0;
  shape.mode = options.guidance_mode.value_or(default_guidance_mode(options.schedule));
  const bool parallel = shape.guided && shape.mode == GuidanceMode::parallel;
  if (parallel && ranks % 2 != 0) {
    refuse("guidance_mode", "parallel", "an even number of ranks for it, not " + std::to_string(ranks));
  }
  shape.layout_ranks = parallel ? ranks / 2 : ranks;
  shape.units = shape.guided && shape.mode == GuidanceMode::sequential ? 2 : 1;
  shape.attention = model.attention;
  shape.attention.batch = shape.guided && shape.mode == GuidanceMode::batched ? 2 : 1;
  shape.attention.image_tokens = shape.tokens;
  shape.coded = options.wire && !options.wire->rules.empty() && shape.layout_ranks > 1;
  return shape;
}

RunShape shape_of(const ModelShape& model, const GenerateOptions& options, const ExchangeContext* context) {
  RunShape shape = shape_of(model, options, context != nullptr ? context->size() : 1);
  shape.coded = shape.coded && touches_links(plan_of(model, options, *context));
  return shape;
}

UlyssesLayout layout_of(const RunShape& shape, const GenerateOptions& options) {
  return {shape.attention, shape.layout_ranks, options.beyond_heads};
}

CacheBytes cache_of(const ModelShape& model, const RunShape& shape, const GenerateOptions& options,
                    int layout_rank) {
  if (!shape.coded) {
    return {};
  }
  const WirePlan plan = far_plan(*options.wire, model.layers(), options.sampler.steps);
  const UlyssesLayout layout = layout_of(shape, options);
  const std::vector<int> levels(static_cast<std::size_t>(shape.layout_ranks), kFarLevel);
  CacheBytes bytes = wire_memory(plan, layout, layout_rank, options.head_groups, shape.units, levels);
  bytes.reference +=
      ActiveRows::bytes(plan, layout, layout_rank, shape.units, c10::elementSize(options.dtype));
  return bytes;
}

void check_options(const ModelConfig& config, const GenerateOptions& options,
                   const ExchangeContext* context) {
  const int ranks = context != nullptr ? context->size() : 1;
  const std::int64_t classes = config.network->shape().classes;
  if (options.label < 0 || options.label >= classes) {
    refuse("label", options.label, "0 to " + std::to_string(classes - 1));
  }
  if (!(options.guidance >= 0.0 && options.guidance <= kMostGuidance)) {
    refuse("guidance", options.guidance, "0 to " + std::to_string(static_cast<int>(kMostGuidance)));
  }
  if (!(options.step_cache >= 0.0 && options.step_cache <= kMostGuidance)) {
    refuse("step_cache", options.step_cache, "0 to " + std::to_string(static_cast<int>(kMostGuidance)));
  }
  check_only_steps(options.only_steps, options.sampler.steps);
  check_type(options, ranks);
  if (options.observe && ranks > 1) {
    refuse("observe", ranks, "one rank");
  }
  const RunShape shape = shape_of(config.network->shape(), options, context);
  if (options.wire) {
    check_wire(config.network->shape(), shape, options, context);
  }
  SamplerOptions sampler = options.sampler;
  sampler.image_tokens = shape.tokens;
  check(sampler);
  check_groups(layout_of(shape, options), options.head_groups);
  if (options.wire) {
    require_memory_budget(largest_cache(config.network->shape(), shape, options).total(),
                          options.cache_budget);
  }
}

std::string options_text(const GenerateOptions& options) {
  std::ostringstream text;
  text.precision(17);
  text << timing_text(options) << ' ' << options.label << ' ' << options.seed << ' ' << options.guidance
       << ' ' << to_string(options.schedule) << ' ' << options.cache_budget.value_or(0) << ' '
       << options.cache_budget.has_value() << ' ' << options.record_layers << ' ' << options.step_cache
       << ' ';
  print(text, options.sampler);
  for (const int step : options.only_steps) {
    text << ' ' << step;
  }
  return text.str();
}

std::string timing_text(const GenerateOptions& options) {
  std::ostringstream text;
  text << options.height << 'x' << options.width << ' ' << (options.guidance != 1.0) << ' '
       << to_string(options.guidance_mode.value_or(default_guidance_mode(options.schedule))) << ' '
       << options.head_groups << ' ' << static_cast<int>(options.beyond_heads) << ' '
       << c10::toString(options.dtype) << ' ' << options.device.str() << ' '
       << (options.wire ? to_json(*options.wire) : "exact");
  return text.str();
}

}  // namespace dit
