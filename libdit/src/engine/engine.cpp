#include "engine/engine.hpp"

#include <ATen/core/grad_mode.h>

#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include "engine/estimates.hpp"
#include "engine/image_run.hpp"
#include "engine/run_shape.hpp"
#include "engine/threads.hpp"

namespace dit {
namespace {

/// Runs what may fail on some ranks: it succeeds on all of them, or throws on all.
template <class Error, class Body>
void together(ExchangeContext* context, Body&& body) {
  if (context == nullptr) {
    return body();
  }
  std::string error;
  try {
    body();
  } catch (const std::exception& caught) {
    error = *caught.what() != '\0' ? caught.what() : "failed without a word";
  }
  error = context->agree_on_error(error);
  if (!error.empty()) {
    throw Error(error);
  }
}

/// Throws on all ranks when `text` is not the same on all of them.
void require_same(ExchangeContext* context, const std::string& what, const std::string& text) {
  if (context == nullptr) {
    return;
  }
  const std::uint64_t digest = std::hash<std::string>{}(text);
  const auto all = context->all_gather(std::as_bytes(std::span(&digest, 1)));
  for (int rank = 1; rank < context->size(); ++rank) {
    if (std::memcmp(all.data(), all.data() + static_cast<std::size_t>(rank) * sizeof(digest),
                    sizeof(digest)) != 0) {
      throw std::invalid_argument(what + " of rank " + std::to_string(rank) +
                                  " is not that of rank 0: expected the same on all ranks");
    }
  }
}

std::string not_finite_text(int step, std::optional<int> layer, const GenerateOptions& options) {
  std::string text = "the image is not finite in step " + std::to_string(step) + " of " +
                     std::to_string(options.sampler.steps) + ", from " +
                     (layer ? "layer " + std::to_string(*layer) : "behind the last layer") + " on (from 0)";
  if (options.wire && !options.wire->name.empty()) {
    text += ", policy " + options.wire->name;
  }
  return text + ": expected finite weights" + (options.wire ? ", or a policy that sends more" : "");
}

}  // namespace

NotFinite::NotFinite(int step, std::optional<int> layer, const GenerateOptions& options)
    : std::runtime_error(not_finite_text(step, layer, options)), step_(step), layer_(layer) {}

struct Engine::State {
  LoadedModel model;
  ExchangeContext* context = nullptr;
  int threads = 1;
  std::unique_ptr<const Model> network;  // in the type and on the device last asked for
  std::string network_type;
  std::map<std::string, StepEstimates> estimates;  // by timing_text
  std::unique_ptr<ExchangeContext> half;           // split when first needed

  const Model& network_for(const GenerateOptions& options) {
    const std::string type = std::string(c10::toString(options.dtype)) + " " + options.device.str();
    if (!network || network_type != type) {
      network.reset();  // its memory first
      network = model.config.network->build(
          placed(model.weights, at::TensorOptions(options.dtype).device(options.device)));
      network_type = type;
    }
    return *network;
  }

  /// The ranks of this one's guidance branch, when they are not all; null else. Collective.
  ExchangeContext* half_for(const GenerateOptions& options) {
    const RunShape shape = shape_of(model.config.network->shape(), options, context);
    if (context == nullptr || shape.layout_ranks == context->size() || shape.layout_ranks == 1) {
      return nullptr;
    }
    if (half == nullptr) {
      half = context->split(context->rank() / shape.layout_ranks, context->rank());
    }
    return half.get();
  }

  /// Checks, agrees and allocates.
  std::unique_ptr<ImageRun> begin(const GenerateOptions& options, StepEstimates& known) {
    require_same(context, "options", options_text(options));
    check_options(model.config, options, context);
    auto run =
        std::make_unique<ImageRun>(model.config.network->shape(), context, half_for(options), options, known);
    together<std::runtime_error>(context, [&] { run->allocate(network_for(options)); });
    return run;
  }
};

Engine::Engine(LoadedModel model, ExchangeContext* context) : state_(std::make_unique<State>()) {
  state_->model = std::move(model);
  state_->context = context != nullptr && context->size() > 1 ? context : nullptr;
  together<std::invalid_argument>(state_->context, [&] {
    check_weights(state_->model.config.network->tensor_shapes(), state_->model.weights);
  });
  require_same(state_->context, "the model's config.json", to_json(state_->model.config));
  together<std::invalid_argument>(state_->context,
                                  [&] { state_->threads = compute_threads_for(state_->context); });
  use_compute_threads(state_->threads);
}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;

const LoadedModel& Engine::model() const {
  return state_->model;
}

void Engine::check(const GenerateOptions& options) const {
  check_options(state_->model.config, options, state_->context);
}

CacheBytes Engine::cache_for(const GenerateOptions& options) const {
  const ModelShape& model = state_->model.config.network->shape();
  const RunShape shape = shape_of(model, options, state_->context);
  const int rank = state_->context != nullptr ? state_->context->rank() : 0;
  return cache_of(model, shape, options, rank % shape.layout_ranks);
}

std::vector<StepKind> Engine::measure(const GenerateOptions& options) {
  const at::NoGradGuard no_grad;
  use_compute_threads(state_->threads);
  StepEstimates measured;
  return state_->begin(options, measured)->measure();
}

GenerateResult Engine::generate(const GenerateOptions& options, const Progress& progress) {
  const at::NoGradGuard no_grad;
  use_compute_threads(state_->threads);
  const std::unique_ptr<ImageRun> run = state_->begin(options, state_->estimates[timing_text(options)]);
  GenerateResult result;
  result.report.cache = cache_for(options);
  result.report.compute_threads = static_cast<std::uint64_t>(state_->threads);
  const bool leads = state_->context == nullptr || state_->context->rank() == 0;
  const auto begin = std::chrono::steady_clock::now();
  try {
    for (int step = 0; step < options.sampler.steps; ++step) {
      result.report.steps.push_back(run->advance(step));
      if (leads && progress) {
        progress(step, options.sampler.steps, result.report.steps.back());
      }
    }
    result.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    run->collect(result);
  } catch (...) {
    // Closing is collective, and the other ranks are in the middle of an image: left open, the caller can end
    // the job.
    static_cast<void>(state_->half.release());
    throw;
  }
  return result;
}

}  // namespace dit
