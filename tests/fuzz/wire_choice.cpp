#include "wire_choice.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

namespace fuzz {
namespace {

// Memory is of 24 bits and without momentum here, so what stays is what came. V-Major remembers nothing in
// runs of which each step is of the warm-up or a refresh.
constexpr PolicyChoice kPolicies[] = {
    {.text = "exact", .arrival = Arrival::exact, .remembers = false},
    {.text = "bf16", .arrival = Arrival::exact, .remembers = false},
    {.text = "int8", .arrival = Arrival::near, .remembers = false},
    {.text = "fp8", .arrival = Arrival::near, .remembers = false},
    {.text = "fine", .sure_from = 1},
    {.text = "good", .sure_from = 1},
    {.text = "balanced", .sure_from = 1},
    {.text = "fast", .sure_from = 1},
    {.text = "draft", .sure_from = 1},
    {.text = "displaced", .arrival = Arrival::late},
    {.text = "paper", .arrival = Arrival::past, .v_major = true, .sure_from = 6},
    {.text = "v-major:warmup=1,refresh=3,ratio=0.5",
     .arrival = Arrival::past,
     .v_major = true,
     .sure_from = 2},
    {.text = "v-major:warmup=0,refresh=2,ratio=linear,format=fp8", .v_major = true, .sure_from = 3},
    {.text =
         R"({"format": "dit-wire-policy", "version": 1, "rules": [{"mode": "rows 0.5 bf16", "level": "world"}]})",
     .arrival = Arrival::past,
     .world = true,
     .sure_from = 1},
    {.text =
         R"({"format": "dit-wire-policy", "version": 1, "most_age": 2, "rules": [{"mode": "skip", "steps": [1, -1]}]})",
     .arrival = Arrival::past},
    {.text = R"({"format": "dit-wire-policy", "version": 1, "momentum": 0.5, "guard": 0.05,
                 "rules": [{"mode": "residual int2", "level": "world"}, {"mode": "late int4", "steps": [2, -1], "branch": 1}]})",
     .world = true,
     .guard = true},
    {.text =
         R"({"format": "dit-wire-policy", "version": 1, "guard": 0.2, "rules": [{"mode": "fp8", "level": "world"}]})",
     .arrival = Arrival::near,
     .world = true,
     .guard = true},
    {.text =
         R"({"format": "dit-wire-policy", "version": 1, "rules": [{"mode": "v-major 0.4 bf16", "level": "world"},
                 {"mode": "rows 0.3 residual int8", "tensors": ["o"]}]})",
     .world = true,
     .v_major = true,
     .sure_from = 2}};

constexpr std::uint32_t kHalfBias = 15;
constexpr std::uint32_t kFloatBias = 127;

}  // namespace

const PolicyChoice& policy_choice(int number) {
  return kPolicies[number];
}

int policy_choices() {
  return static_cast<int>(std::size(kPolicies));
}

void store_number(int eighths, int element_type, std::uint8_t* out) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(eighths) / 8);
  if (element_type == DIT_ELEMENT_FP32) {
    std::memcpy(out, &bits, sizeof bits);
    return;
  }
  auto half = static_cast<std::uint16_t>(bits >> 16U);
  if (element_type == DIT_ELEMENT_FP16) {
    const std::uint32_t exponent = (bits >> 23U & 0xffU) - kFloatBias + kHalfBias;
    const std::uint32_t sign = bits >> 16U & 0x8000U;
    half = static_cast<std::uint16_t>(eighths == 0 ? 0U : sign | exponent << 10U | (bits >> 13U & 0x3ffU));
  }
  std::memcpy(out, &half, sizeof half);
}

float load_number(const std::uint8_t* in, int element_type) {
  if (element_type == DIT_ELEMENT_FP32) {
    float number = 0;
    std::memcpy(&number, in, sizeof number);
    return number;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, in, sizeof half);
  if (element_type == DIT_ELEMENT_BF16) return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U);
  const int exponent = half >> 10U & 0x1f;
  const int digits = half & 0x3ff;
  if (exponent == 0x1f) return INFINITY;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(digits), -24)
                                   : std::ldexp(static_cast<float>(digits + 1024), exponent - 25);
  return (half & 0x8000U) != 0 ? -size : size;
}

}  // namespace fuzz
