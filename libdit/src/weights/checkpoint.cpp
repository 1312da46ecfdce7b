#include <map>
#include <set>
#include <stdexcept>

#include "json/strict_json.hpp"
#include "weights/safetensors.hpp"

namespace dit {
namespace {

using nlohmann::json;

constexpr std::size_t kMostIndexBytes = 100'000'000;

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// A shard lies in its index's folder: a name, not a path.
bool plain_name(const std::string& name) {
  return ends_with(name, ".safetensors") && name.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
}

/// Tensor name -> shard, as the index says.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const std::string where = path.string();
  const json document = parse_strict_json(read_text_file(path, kMostIndexBytes), where);
  if (!document.is_object() || !document.contains("weight_map") || !document.at("weight_map").is_object()) {
    throw std::runtime_error(where +
                             ": expected an object with weight_map, an object of tensor names and files");
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : document.at("weight_map").items()) {
    if (!shard.is_string() || !plain_name(shard.get_ref<const std::string&>())) {
      throw std::runtime_error(where + ": tensor " + shown(json(tensor)) + " is in " + shown(shard) +
                               ", expected the name of a .safetensors file in the same folder");
    }
    shard_of[tensor] = shard.get<std::string>();
  }
  return shard_of;
}

void add_shard(const std::filesystem::path& index, const std::string& shard,
               const std::map<std::string, std::string>& shard_of, TensorMap& tensors) {
  const std::filesystem::path path = index.parent_path() / shard;
  if (!std::filesystem::exists(path)) {
    throw std::runtime_error(index.string() + ": shard " + shard + " is missing");
  }
  const SafetensorsFile file(path);
  for (const TensorEntry& entry : file.entries()) {
    const auto listed = shard_of.find(entry.name);
    if (listed == shard_of.end()) {
      throw std::runtime_error(index.string() + ": tensor " + entry.name + " of shard " + shard +
                               " is not in weight_map");
    }
    if (listed->second != shard) {
      throw std::runtime_error(index.string() + ": tensor " + entry.name + " is in shard " + shard +
                               ", expected only in " + listed->second + ", as weight_map says");
    }
    tensors[entry.name] = file.tensor(entry.name);
  }
}

TensorMap read_sharded(const std::filesystem::path& index) {
  const std::map<std::string, std::string> shard_of = read_index(index);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) {
    shards.insert(shard);
  }
  TensorMap tensors;
  for (const std::string& shard : shards) {
    add_shard(index, shard, shard_of, tensors);
  }
  for (const auto& [tensor, shard] : shard_of) {
    if (tensors.count(tensor) == 0) {
      throw std::runtime_error(index.string() + ": tensor " + tensor + " is not in its shard " + shard);
    }
  }
  return tensors;
}

}  // namespace

TensorMap read_checkpoint(const std::filesystem::path& path) {
  if (ends_with(path.string(), ".index.json")) {
    return read_sharded(path);
  }
  const SafetensorsFile file(path);
  TensorMap tensors;
  for (const TensorEntry& entry : file.entries()) {
    tensors[entry.name] = file.tensor(entry.name);
  }
  return tensors;
}

}  // namespace dit
