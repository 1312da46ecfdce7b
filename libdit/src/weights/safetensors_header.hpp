/// The header of a safetensors file, checked against the file's size. Pure: bytes in, entries out.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weights/safetensors.hpp"

namespace dit {

/// An element type of the format.
struct SafetensorsType {
  const char* name;
  std::uint64_t bytes;
  std::optional<at::ScalarType> scalar;  ///< none: this libtorch has no such type
};
/// Null: no such type.
[[nodiscard]] const SafetensorsType* safetensors_type(std::string_view name);
[[nodiscard]] const SafetensorsType* safetensors_type(at::ScalarType scalar);
[[nodiscard]] std::string safetensors_type_names();

constexpr std::uint64_t kSafetensorsPrefixBytes = 8;                ///< the header's length
constexpr std::uint64_t kSafetensorsMostHeaderBytes = 100'000'000;  ///< as in the reference implementation

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;  ///< by offset; together they cover the data without holes
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  ///< of the data in the file
};
/// `file`: all bytes of a file called `name`. Throws std::runtime_error "NAME: ...".
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                                         const std::string& name);

}  // namespace dit
