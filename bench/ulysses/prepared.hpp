/// @file
/// Norm and RoPE for programs: weights and tables on the host and on the device, and numbers of any type.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "gpu.hpp"
#include "ranks.hpp"

namespace tapa::bench {

[[nodiscard]] inline std::size_t bytes_of_type(int element_type) {
  return element_type == DIT_ELEMENT_FP32 ? 4 : 2;
}

/// Numbers between about 1/100 and 8 of both signs, and now and then any bits at all (infinities, not a
/// number).
inline void fill_numbers(std::vector<std::uint8_t>& bytes, int element_type, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  const std::size_t size = bytes_of_type(element_type);
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto random = static_cast<std::uint32_t>(state >> 32);
    std::uint32_t bits = random;
    if (random % 4096 != 7) {
      const std::uint32_t exponent = random >> 8 & 7U;
      const std::uint32_t sign = random >> 31;
      if (element_type == DIT_ELEMENT_FP32)
        bits = sign << 31 | (122 + exponent) << 23 | (random * 97 & 0x7fffffU);
      if (element_type == DIT_ELEMENT_BF16)
        bits = sign << 15 | (122 + exponent) << 7 | (random * 97 >> 9 & 0x7fU);
      if (element_type == DIT_ELEMENT_FP16)
        bits = sign << 15 | (10 + exponent) << 10 | (random * 97 >> 9 & 0x3ffU);
    }
    std::memcpy(&bytes[at], &bits, size);
  }
}

/// What a dit_prepare points to, twice.
class Preparation {
 public:
  Preparation(int element_type, int weight_type, int norm, int rope, std::int64_t tokens, std::int64_t heads,
              std::int64_t dim)
      : how_{sizeof(dit_prepare), element_type, norm,    rope, 0, 1e-6, nullptr, nullptr,
             weight_type,         nullptr,      nullptr, 0,    0, 0},
        weight_(numbers(weight_type, (norm == DIT_NORM_TOKEN ? heads : 1) * dim, 11)),
        text_weight_(numbers(weight_type, (norm == DIT_NORM_TOKEN ? heads : 1) * dim, 12)),
        cosine_(table(tokens, dim, false)),
        sine_(table(tokens, dim, true)) {}

  [[nodiscard]] dit_prepare on_host() {
    dit_prepare how = how_;
    how.weight = weight_.host.data();
    how.text_weight = text_weight_.host.data();
    how.cosine = reinterpret_cast<const float*>(cosine_.host.data());
    how.sine = reinterpret_cast<const float*>(sine_.host.data());
    return how;
  }
  [[nodiscard]] dit_prepare on_device() const {
    dit_prepare how = how_;
    how.weight = weight_.device->get();
    how.text_weight = text_weight_.device->get();
    how.cosine = reinterpret_cast<const float*>(cosine_.device->get());
    how.sine = reinterpret_cast<const float*>(sine_.device->get());
    return how;
  }
  void round_norm(bool rounds) { how_.round_norm = rounds ? 1 : 0; }

 private:
  struct Both {
    std::vector<std::uint8_t> host;
    std::unique_ptr<Memory> device;
  };
  static Both both(std::vector<std::uint8_t> bytes) {
    Both made{std::move(bytes), nullptr};
    made.device = std::make_unique<Memory>(made.host.size() + 16);
    cuda(cudaMemcpy(made.device->get(), made.host.data(), made.host.size(), cudaMemcpyHostToDevice),
         "cudaMemcpy");
    return made;
  }
  static Both numbers(int type, std::int64_t count, std::uint64_t seed) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * bytes_of_type(type));
    fill_numbers(bytes, type, seed);
    return both(std::move(bytes));
  }
  static Both table(std::int64_t tokens, std::int64_t dim, bool sine) {
    std::vector<float> values;
    for (std::int64_t token = 0; token < tokens; ++token)
      for (std::int64_t pair = 0; pair < dim / 2; ++pair) {
        const double angle = static_cast<double>(token) *
                             std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(dim));
        values.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
      }
    std::vector<std::uint8_t> bytes(values.size() * sizeof(float));
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return both(std::move(bytes));
  }

  dit_prepare how_;
  Both weight_, text_weight_, cosine_, sine_;
};

}  // namespace tapa::bench
