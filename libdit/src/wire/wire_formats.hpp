/// The formats' names and units, for hosts and devices. See codec.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dit {

enum class WireFormat : std::uint8_t { full, bf16, fp8, int8, int4, int2, int1 };
inline constexpr int kWireFormats = 7;

/// What tensors hold.
enum class WireElement : std::uint8_t { fp32, bf16, fp16 };

inline constexpr std::size_t kWireGroup = 32;      ///< elements that share a scale
inline constexpr std::size_t kWireSegment = 1024;  ///< elements that share the scales' exponent

}  // namespace dit
