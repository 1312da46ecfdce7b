#include "attention.hpp"

#include <limits>
#include <optional>
#include <stdexcept>

#include "group.hpp"
#include "streams.hpp"

namespace dit::operators {
namespace {

int between(const char* name, std::int64_t value, std::int64_t least,
            std::int64_t most = std::numeric_limits<int>::max()) {
  if (value < least || value > most)
    throw std::invalid_argument("attention->" + std::string(name) + " = " + std::to_string(value) +
                                ": expected " + std::to_string(least) + " to " + std::to_string(most));
  return static_cast<int>(value);
}

std::string text(const char* given, const char* otherwise) {
  return given == nullptr || *given == '\0' ? otherwise : given;
}

int or_else(int given, int otherwise) {
  return given == 0 ? otherwise : given;
}

}  // namespace

Attention::Attention(const dit_torch_attention& given)
    : shape{sizeof(dit_attention_shape),
            given.batch,
            given.text_tokens,
            given.image_tokens,
            given.heads,
            given.kv_heads == 0 ? given.heads : given.kv_heads,
            given.head_dim,
            given.flags},
      element_type(between("element_type", given.element_type, DIT_ELEMENT_FP32, DIT_ELEMENT_FP16)),
      memory_kind(between("memory_kind", given.memory_kind, DIT_MEMORY_HOST, DIT_MEMORY_CUDA)),
      device(between("device", given.device, 0, memory_kind == DIT_MEMORY_HOST ? 0 : 127)),
      slots(between("slots", or_else(given.slots, 2), 1, 1024)),
      side_stream(between("side_stream", given.side_stream, 0, memory_kind == DIT_MEMORY_HOST ? 0 : 1) != 0),
      policy(text(given.policy, "exact")),
      off(text(given.off, "")),
      layers(between("layers", or_else(given.layers, 1), 1)),
      steps(between("steps", or_else(given.steps, 1), 1)),
      branches(between("branches", or_else(given.branches, 1), 1)) {
  if (on_device()) require_cuda();
}

Attention agreed_attention(const Group& group, const dit_torch_attention& given) {
  std::string words;
  std::optional<Attention> attention;
  try {
    attention.emplace(given);
  } catch (const std::invalid_argument& error) {
    words = error.what();
  }
  group.agree(words);
  return *attention;
}

c10::ScalarType Attention::dtype() const {
  switch (element_type) {
    case DIT_ELEMENT_FP32:
      return c10::ScalarType::Float;
    case DIT_ELEMENT_BF16:
      return c10::ScalarType::BFloat16;
    default:
      return c10::ScalarType::Half;
  }
}

c10::Device Attention::torch_device() const {
  return on_device() ? c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device))
                     : c10::Device(c10::DeviceType::CPU);
}

}  // namespace dit::operators
