#include "weights/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "json/strict_json.hpp"

#if __has_include(<c10/util/Float8_e4m3fn.h>)
#define DIT_HAVE_FLOAT8 1
#endif

namespace dit {
namespace {

using nlohmann::json;

constexpr std::size_t kMostDimensions = 64;  // libtorch's own limit for most operations

#ifdef DIT_HAVE_FLOAT8
constexpr std::optional<at::ScalarType> kFloat8E4 = at::ScalarType::Float8_e4m3fn;
constexpr std::optional<at::ScalarType> kFloat8E5 = at::ScalarType::Float8_e5m2;
#else
constexpr std::optional<at::ScalarType> kFloat8E4 = std::nullopt;
constexpr std::optional<at::ScalarType> kFloat8E5 = std::nullopt;
#endif

constexpr std::array<SafetensorsType, 12> kTypes = {{{"F64", 8, at::kDouble},
                                                     {"F32", 4, at::kFloat},
                                                     {"F16", 2, at::kHalf},
                                                     {"BF16", 2, at::kBFloat16},
                                                     {"F8_E4M3", 1, kFloat8E4},
                                                     {"F8_E5M2", 1, kFloat8E5},
                                                     {"I64", 8, at::kLong},
                                                     {"I32", 4, at::kInt},
                                                     {"I16", 2, at::kShort},
                                                     {"I8", 1, at::kChar},
                                                     {"U8", 1, at::kByte},
                                                     {"BOOL", 1, at::kBool}}};

/// Reads one tensor's description; everything that fails names file and tensor.
class EntryReader {
 public:
  EntryReader(const std::string& file, const std::string& tensor, const json& value)
      : where_(file + ": tensor " + shown(json(tensor))), name_(tensor), value_(&value) {}

  [[nodiscard]] TensorEntry read(std::uint64_t data_bytes) const {
    check_keys();
    TensorEntry entry;
    entry.name = name_;
    const SafetensorsType& type = read_type();
    entry.dtype = type.name;
    entry.shape = read_shape();
    std::tie(entry.begin, entry.end) = read_offsets(data_bytes);
    const std::uint64_t expected = bytes_of(entry.shape, type.bytes);
    if (entry.end - entry.begin != expected) {
      fail("data_offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "] hold " +
           std::to_string(entry.end - entry.begin) + " bytes, but dtype and shape need " +
           std::to_string(expected));
    }
    return entry;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw std::runtime_error(where_ + ": " + what); }

  void check_keys() const {
    if (!value_->is_object()) {
      fail(shown(*value_) + ", expected an object of dtype, shape and data_offsets");
    }
    for (const char* key : {"dtype", "shape", "data_offsets"}) {
      if (!value_->contains(key)) {
        fail(std::string("key \"") + key + "\" is missing");
      }
    }
    for (const auto& [key, unused] : value_->items()) {
      if (key != "dtype" && key != "shape" && key != "data_offsets") {
        fail("unknown key " + shown(json(key)) + ", expected dtype, shape and data_offsets");
      }
    }
  }

  [[nodiscard]] const SafetensorsType& read_type() const {
    const json& value = value_->at("dtype");
    const SafetensorsType* type =
        value.is_string() ? safetensors_type(value.get_ref<const std::string&>()) : nullptr;
    if (type == nullptr) {
      fail("dtype " + shown(value) + ", expected one of " + safetensors_type_names());
    }
    return *type;
  }

  [[nodiscard]] std::vector<std::int64_t> read_shape() const {
    const json& value = value_->at("shape");
    if (!value.is_array() || value.size() > kMostDimensions) {
      fail("shape " + shown(value) + ", expected an array of at most " + std::to_string(kMostDimensions));
    }
    std::vector<std::int64_t> shape;
    for (const json& side : value) {
      constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
      if (!side.is_number_unsigned() || side.get<std::uint64_t>() > most) {
        fail("shape has " + shown(side) + ", expected integers from 0 to " + std::to_string(most));
      }
      shape.push_back(side.get<std::int64_t>());
    }
    return shape;
  }

  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> read_offsets(std::uint64_t data_bytes) const {
    const json& value = value_->at("data_offsets");
    if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
        !value[1].is_number_unsigned()) {
      fail("data_offsets " + value.dump(-1, ' ', true).substr(0, 60) + ", expected two integers from 0");
    }
    const auto begin = value[0].get<std::uint64_t>();
    const auto end = value[1].get<std::uint64_t>();
    if (begin > end || end > data_bytes) {
      fail("data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
           "], expected begin <= end <= " + std::to_string(data_bytes) + ", the bytes of data in this file");
    }
    return {begin, end};
  }

  /// Sides of 0 count as 1 in the check for overflow: strides are computed so.
  [[nodiscard]] std::uint64_t bytes_of(const std::vector<std::int64_t>& shape, std::uint64_t element) const {
    std::uint64_t bytes = element;
    bool empty = false;
    for (const std::int64_t side : shape) {
      empty = empty || side == 0;
      const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(side, 1));
      if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / factor) {
        fail("shape " + json(shape).dump().substr(0, 60) + " has more bytes than 64 bits can count");
      }
      bytes *= factor;
    }
    return empty ? 0 : bytes;
  }

  std::string where_;
  std::string name_;
  const json* value_;
};

std::map<std::string, std::string> read_metadata(const json& value, const std::string& name) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) {
    throw std::runtime_error(name + ": __metadata__ is " + shown(value) + ", expected an object of strings");
  }
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      throw std::runtime_error(name + ": __metadata__ " + shown(json(key)) + " is " + shown(text) +
                               ", expected a string");
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

/// Tensors in order must follow each other: neither shared bytes nor bytes that nobody describes (which could
/// hide another file).
void check_cover(const std::vector<TensorEntry>& entries, std::uint64_t data_bytes, const std::string& name) {
  std::uint64_t reached = 0;
  for (const TensorEntry& entry : entries) {
    const std::string tensor = "tensor " + shown(json(entry.name));
    if (entry.begin < reached) {
      throw std::runtime_error(name + ": " + tensor + " begins at byte " + std::to_string(entry.begin) +
                               " of the data, inside the tensor before it, which ends at " +
                               std::to_string(reached));
    }
    if (entry.begin > reached) {
      throw std::runtime_error(name + ": bytes " + std::to_string(reached) + " to " +
                               std::to_string(entry.begin) +
                               " of the data belong to no tensor: expected none before " + tensor);
    }
    reached = entry.end;
  }
  if (reached != data_bytes) {
    throw std::runtime_error(name + ": the last tensor ends at byte " + std::to_string(reached) +
                             " of the data, expected " + std::to_string(data_bytes) +
                             ", where the file ends");
  }
}

std::uint64_t header_length(std::span<const std::byte> file, const std::string& name) {
  if (file.size() < kSafetensorsPrefixBytes) {
    throw std::runtime_error(name + ": " + std::to_string(file.size()) +
                             " bytes, expected a safetensors file: 8 bytes of header length, a header, data");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kSafetensorsPrefixBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  }
  if (length > kSafetensorsMostHeaderBytes) {
    throw std::runtime_error(name + ": header length " + std::to_string(length) + ", expected at most " +
                             std::to_string(kSafetensorsMostHeaderBytes) + ": not a safetensors file");
  }
  if (length > file.size() - kSafetensorsPrefixBytes) {
    throw std::runtime_error(name + ": header length " + std::to_string(length) + ", but only " +
                             std::to_string(file.size() - kSafetensorsPrefixBytes) +
                             " bytes follow: the file is cut short");
  }
  return length;
}

}  // namespace

const SafetensorsType* safetensors_type(std::string_view name) {
  const auto* found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& type) { return type.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

const SafetensorsType* safetensors_type(at::ScalarType scalar) {
  const auto* found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& type) { return type.scalar == scalar; });
  return found == kTypes.end() ? nullptr : found;
}

std::string safetensors_type_names() {
  std::string names;
  for (const SafetensorsType& type : kTypes) {
    if (!names.empty()) {
      names += ' ';
    }
    names += type.name;
  }
  return names;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& name) {
  const std::uint64_t length = header_length(file, name);
  const auto* const text = reinterpret_cast<const char*>(file.data()) + kSafetensorsPrefixBytes;
  if (length == 0 || text[0] != '{') {
    throw std::runtime_error(name + ": the header does not begin with '{': not a safetensors file");
  }
  const json document = parse_strict_json({text, static_cast<std::size_t>(length)}, name + ": header");
  SafetensorsHeader header;
  header.data_offset = kSafetensorsPrefixBytes + length;
  const std::uint64_t data_bytes = file.size() - header.data_offset;
  for (const auto& [key, value] : document.items()) {
    if (key == "__metadata__") {
      header.metadata = read_metadata(value, name);
    } else {
      header.entries.push_back(EntryReader(name, key, value).read(data_bytes));
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(header.entries, data_bytes, name);
  return header;
}

}  // namespace dit
