/// @file
/// Wires and numbers of the programs of coded transfers.
#pragma once

#include <cstring>
#include <string>

#include "ranks.hpp"

namespace tapa::bench {

class Wire : public Owner<dit_wire, dit_wire_free> {
 public:
  Wire(const Session& session, const Layout& layout, const std::string& policy, int layers, int steps,
       int element_type) {
    dit_wire_options options{};
    options.struct_size = sizeof(options);
    options.policy = policy.c_str();
    options.layers = layers;
    options.steps = steps;
    options.branches = 1;
    options.groups = 1;
    options.element_type = element_type;
    dit_call(dit_wire_create(session.get(), layout.get(), &options, place()));
  }
  [[nodiscard]] std::string text() const {
    std::size_t length = 0;
    dit_call(dit_wire_text(get(), nullptr, 0, &length));
    std::string text(length + 1, '\0');
    dit_call(dit_wire_text(get(), text.data(), text.size(), nullptr));
    text.resize(length);
    return text;
  }
};

/// The preset for all links: a node has none that leave it.
inline std::string on_all_links(std::string policy, const std::string& level) {
  const std::string mode = "\"mode\"";
  for (std::size_t at = policy.find(mode); at != std::string::npos; at = policy.find(mode, at)) {
    const std::string with = "\"level\": \"" + level + "\", ";
    policy.insert(at, with);
    at += with.size() + mode.size();
  }
  return policy;
}

inline std::string nearest_level(const Session& session) {
  const dit_exchange_plugin* plugin = nullptr;
  dit_context* context = nullptr;
  dit_call(dit_session_plugin(session.get(), &plugin, &context));
  return plugin->level_name(context, 0);
}

inline std::size_t element_bytes(int element) {
  return element == DIT_ELEMENT_FP32 ? 4 : 2;
}

/// From -2 to 2, near 0 more often than far from it.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  float next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto part = [&](int shift) { return static_cast<float>(state_ >> shift & 0xffffU) * 0x1p-16F; };
    return part(48) + part(32) + part(24) + part(40) - 2.0F;
  }

 private:
  std::uint64_t state_;
};

/// Numbers that move a little from step to step.
inline std::vector<std::uint8_t> numbers(std::size_t bytes, int element, std::uint32_t seed, int step) {
  Noise still(seed), moves(seed * std::uint64_t{31} + static_cast<std::uint64_t>(step) + 1);
  std::vector<std::uint8_t> memory(bytes);
  const std::size_t each = element_bytes(element);
  for (std::size_t at = 0; at + each <= bytes; at += each) {
    const float value = still.next() + 0.2F * moves.next();
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    if (element == DIT_ELEMENT_FP32) {
      std::memcpy(memory.data() + at, &value, 4);
    } else if (element == DIT_ELEMENT_BF16) {
      const auto half = static_cast<std::uint16_t>(bits >> 16U);
      std::memcpy(memory.data() + at, &half, 2);
    } else {  // fp16 of 2^-14 or more
      const std::uint32_t exponent = bits >> 23U & 255U;
      const auto half = static_cast<std::uint16_t>(
          (bits >> 16U & 0x8000U) | (exponent < 113 ? 0U : (exponent - 112) << 10U | (bits >> 13U & 0x3ffU)));
      std::memcpy(memory.data() + at, &half, 2);
    }
  }
  return memory;
}

}  // namespace tapa::bench
