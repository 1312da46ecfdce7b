#include "model_rates.hpp"

namespace dit::tool {

ForwardShape forward_shape(const ModelShape& model, const RunShape& run, const GenerateOptions& options) {
  ForwardShape shape;
  shape.attention = run.attention;
  shape.width = model.width;
  shape.mlp_ratio = model.mlp_ratio;
  shape.patch_elements = model.patch_elements();
  shape.element_bytes = static_cast<std::int64_t>(at::elementSize(options.dtype));
  shape.ranks = run.layout_ranks;
  return shape;
}

ComputeRates measure_compute(const LoadedModel& model, const GenerateOptions& options) {
  GenerateOptions alone = options;
  alone.guidance_mode = GuidanceMode::sequential;
  alone.wire.reset();
  Engine engine(model, nullptr);
  const ModelShape& shape = model.config.network->shape();
  return compute_rates(engine.measure(alone).front().graph,
                       forward_shape(shape, shape_of(shape, alone, 1), alone));
}

}  // namespace dit::tool
