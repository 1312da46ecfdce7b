#include "weights/embedded_model.hpp"

namespace dit {

std::optional<EmbeddedModel> embedded_model() {
  return std::nullopt;
}

}  // namespace dit
