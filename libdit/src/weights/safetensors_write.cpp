#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "files/output_file.hpp"
#include "weights/safetensors.hpp"
#include "weights/safetensors_header.hpp"

namespace dit {
namespace {

/// A tensor as it is written: whole, on the CPU.
struct Item {
  std::string name;
  const SafetensorsType* type = nullptr;
  at::Tensor tensor;
  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(tensor.numel()) * type->bytes;
  }
};

Item make_item(const std::filesystem::path& path, const std::string& name, const at::Tensor& tensor) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(path.string() + ": tensor " + name + " " + what);
  };
  if (name == "__metadata__") {
    fail("has a name that the format keeps for itself");
  }
  if (!tensor.defined() || tensor.layout() != at::kStrided) {
    fail("is not a dense tensor");
  }
  const SafetensorsType* type = safetensors_type(tensor.scalar_type());
  if (type == nullptr) {
    fail(std::string("has elements of ") + at::toString(tensor.scalar_type()) + ", expected one of " +
         safetensors_type_names());
  }
  return {name, type, tensor.detach().to(at::kCPU).contiguous()};
}

/// Widest elements first, so that all are aligned; then by name, so that equal tensors make equal files.
std::vector<Item> in_file_order(const std::filesystem::path& path, const TensorMap& tensors) {
  std::vector<Item> items;
  for (const auto& [name, tensor] : tensors) {
    items.push_back(make_item(path, name, tensor));
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.type->bytes > b.type->bytes; });
  return items;
}

std::string header_text(const std::filesystem::path& path, const std::vector<Item>& items,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  std::uint64_t offset = 0;
  for (const Item& item : items) {
    header[item.name] = {{"dtype", item.type->name},
                         {"shape", item.tensor.sizes().vec()},
                         {"data_offsets", {offset, offset + item.bytes()}}};
    offset += item.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw std::runtime_error(path.string() + ": a tensor's name or a metadata text is not UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::vector<Item> items = in_file_order(path, tensors);
  const std::string header = header_text(path, items, metadata);
  files::write_file(path, [&](std::ostream& file) {
    for (std::size_t i = 0; i < kSafetensorsPrefixBytes; ++i) {
      file.put(static_cast<char>(header.size() >> (8 * i) & 0xff));
    }
    file << header;
    for (const Item& item : items) {
      file.write(static_cast<const char*>(item.tensor.data_ptr()),
                 static_cast<std::streamsize>(item.bytes()));
    }
  });
}

}  // namespace dit
