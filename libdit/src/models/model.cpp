#include "models/model.hpp"

#include <stdexcept>
#include <string>

namespace dit {
namespace {

[[noreturn]] void no_mlp_beside(int layer) {
  throw std::logic_error("layer " + std::to_string(layer) +
                         " has its MLP beside attention in the graph, and the model has none there");
}

}  // namespace

void SampleForward::mlp_in(int layer) {
  no_mlp_beside(layer);
}
void SampleForward::mlp_out(int layer) {
  no_mlp_beside(layer);
}

double Model::most_score(int /*layer*/) const {
  return kUnknownScore;
}

}  // namespace dit
