#include "predict/published_models.hpp"

#include <algorithm>
#include <stdexcept>

namespace dit {

namespace {

// Layers, heads and head sizes: defaults of the transformers in diffusers 58eb52c. Text tokens: of the
// pipelines' defaults (T5 512; CLIP 77 and T5 256; for Qwen-Image what a prompt of a paragraph makes). FLUX
// takes the guidance scale as an input, the others compute two branches.
const std::vector<PublishedModel>& models() {
  static const std::vector<PublishedModel> all = {
      {"flux1-dev", 57, 24, 128, 512, 1, 38},
      {"qwen-image", 60, 24, 128, 256, 2},
      {"flux2-dev", 56, 48, 128, 512, 1, 48},
      {"sd35-large", 38, 38, 64, 333, 2},
  };
  return all;
}

// Matrix products: measured where the source says so. Attention at half of that: assumed.
const std::vector<PublishedRates>& rates() {
  static const std::vector<PublishedRates> all = {
      {"aurora", 207e12, 103e12, 1.0e12,
       "ALCF, January 2026: bf16 GEMM 2487 TFLOP/s and triad 12 TB/s of a node"},
      {"hgx-h100", 660e12, 330e12, 3.0e12,
       "H100 SXM: two thirds of 989 TFLOP/s bf16, 90 % of 3.35 TB/s, assumed"},
      {"frontier", 128e12, 64e12, 1.4e12,
       "MI250X GCD: two thirds of 191.5 TFLOP/s bf16, 90 % of 1.6 TB/s, assumed"},
      {"polaris", 208e12, 104e12, 1.4e12, "A100: two thirds of 312 TFLOP/s bf16, 90 % of 1.6 TB/s, assumed"},
  };
  return all;
}

}  // namespace

const PublishedModel& published_model(const std::string& name) {
  const auto found =
      std::find_if(models().begin(), models().end(), [&](const PublishedModel& m) { return m.name == name; });
  if (found == models().end()) {
    throw std::invalid_argument("model \"" + name + "\" is not published: expected one of " +
                                published_model_names());
  }
  return *found;
}

std::vector<Block> blocks_of(const PublishedModel& model) {
  std::vector<Block> blocks(static_cast<std::size_t>(model.layers - model.single_layers));
  blocks.resize(static_cast<std::size_t>(model.layers), {MlpPlace::beside, 1});
  return blocks;
}

std::string published_model_names() {
  std::string names;
  for (const PublishedModel& model : models()) names += (names.empty() ? "" : ", ") + model.name;
  return names;
}

const PublishedRates* published_rates(const std::string& machine) {
  const auto found = std::find_if(rates().begin(), rates().end(),
                                  [&](const PublishedRates& r) { return r.machine == machine; });
  return found == rates().end() ? nullptr : &*found;
}

}  // namespace dit
