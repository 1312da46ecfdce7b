#include "weights/safetensors.hpp"

#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "weights/mapped_file.hpp"
#include "weights/safetensors_header.hpp"

namespace dit {

struct SafetensorsFile::State {
  std::string name;
  std::unique_ptr<MappedFile> mapping;  ///< none: somebody else's memory
  std::span<const std::byte> bytes;
  SafetensorsHeader header;
  std::unordered_map<std::string, std::size_t> index;  ///< of `header.entries`

  void read_header() {
    header = parse_safetensors_header(bytes, name);
    for (std::size_t i = 0; i < header.entries.size(); ++i) {
      index[header.entries[i].name] = i;
    }
  }
};

namespace {

/// A byte that is neither 0 nor 1 is no bool in C++.
void check_bools(std::span<const std::byte> bytes, const std::string& where) {
  for (const std::byte value : bytes) {
    if (std::to_integer<int>(value) > 1) {
      throw std::runtime_error(where + " is BOOL and has a byte " +
                               std::to_string(std::to_integer<int>(value)) + ", expected 0 or 1");
    }
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : state_(std::make_shared<State>()) {
  state_->name = path.string();
  state_->mapping = std::make_unique<MappedFile>(path);
  state_->bytes = state_->mapping->bytes();
  state_->read_header();
}

SafetensorsFile::SafetensorsFile(std::string name, const std::byte* data, std::size_t size)
    : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->bytes = {data, size};
  state_->read_header();
}

const std::vector<TensorEntry>& SafetensorsFile::entries() const {
  return state_->header.entries;
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return state_->header.metadata;
}

bool SafetensorsFile::contains(const std::string& name) const {
  return state_->index.count(name) != 0;
}

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto found = state_->index.find(name);
  if (found == state_->index.end()) {
    throw std::runtime_error(state_->name + ": tensor " + name + " is not in this file");
  }
  const TensorEntry& entry = state_->header.entries[found->second];
  const SafetensorsType& type = *safetensors_type(entry.dtype);
  if (!type.scalar) {
    throw std::runtime_error(state_->name + ": tensor " + name + " is " + entry.dtype +
                             ", which this libtorch does not know: libtorch 2.1 or newer does");
  }
  const auto bytes = state_->bytes.subspan(state_->header.data_offset + entry.begin, entry.end - entry.begin);
  if (type.scalar == at::kBool) {
    check_bools(bytes, state_->name + ": tensor " + name);
  }
  const at::TensorOptions options = at::TensorOptions(*type.scalar);
  if (bytes.empty()) {
    return at::empty(entry.shape, options);
  }
  // from_blob wants a pointer to what may be changed; nobody may.
  auto* const data = const_cast<std::byte*>(bytes.data());
  if (reinterpret_cast<std::uintptr_t>(data) % type.bytes !=
      0) {  // a header of odd length: legal, not readable in place
    at::Tensor copy = at::empty(entry.shape, options);
    std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(copy.data_ptr()));
    return copy;
  }
  return at::from_blob(
      data, entry.shape, [state = state_](void*) {}, options);
}

}  // namespace dit
