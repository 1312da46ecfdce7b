#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "json/strict_json.hpp"
#include "weights/model_files.hpp"

namespace dit {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestName = 64;
constexpr std::int64_t kMostPixels = 16384;  // a side

/// One object of the file with its place in it; every read names file, key, value and expectation when it
/// fails.
class Reader {
 public:
  Reader(const json& object, std::string where, std::string path)
      : object_(&object), where_(std::move(where)), path_(std::move(path)) {
    if (!object.is_object()) {
      throw std::runtime_error(where_ + ": " + (path_.empty() ? "the file" : path_) + " = " + shown(object) +
                               ", expected an object");
    }
  }

  void only(std::initializer_list<const char*> keys) const {
    for (const auto& [key, unused] : object_->items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        std::string known;
        for (const char* k : keys) {
          known += (known.empty() ? "" : ", ") + std::string(k);
        }
        throw std::runtime_error(where_ + ": unknown key " + shown(json(place(key))) + ", expected " + known);
      }
    }
  }

  [[nodiscard]] const json& at(const std::string& key) const {
    const auto found = object_->find(key);
    if (found == object_->end()) {
      throw std::runtime_error(where_ + ": key \"" + place(key) + "\" is missing");
    }
    return *found;
  }

  [[noreturn]] void fail(const std::string& key, const std::string& expected) const {
    throw std::runtime_error(where_ + ": " + place(key) + " = " + shown(at(key)) + ", expected " + expected);
  }

  [[nodiscard]] std::int64_t integer(const std::string& key, std::int64_t min, std::int64_t max) const {
    const json& value = at(key);
    const bool fits =
        value.is_number_integer() &&
        !(value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(max)) &&
        value.get<std::int64_t>() >= min;
    if (!fits) {
      fail(key, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
    }
    return value.get<std::int64_t>();
  }

  [[nodiscard]] double number(const std::string& key, const std::string& expected,
                              bool (*legal)(double)) const {
    const json& value = at(key);
    if (!value.is_number() || !std::isfinite(value.get<double>()) || !legal(value.get<double>())) {
      fail(key, expected);
    }
    return value.get<double>();
  }

  /// Printable and not a number: names and numbers of classes are told apart by it.
  [[nodiscard]] std::string name(const std::string& key) const {
    const json& value = at(key);
    if (!value.is_string() || !legal_name(value.get_ref<const std::string&>())) {
      fail(key, "a name of 1 to 64 letters, digits, '_' and '-' that begins with a letter");
    }
    return value.get<std::string>();
  }

  [[nodiscard]] const json& array(const std::string& key, std::size_t min, std::size_t max) const {
    const json& value = at(key);
    if (!value.is_array() || value.size() < min || value.size() > max) {
      fail(key, "an array of " +
                    (min == max ? std::to_string(min) : std::to_string(min) + " to " + std::to_string(max)));
    }
    return value;
  }

  [[nodiscard]] Reader object(const std::string& key) const { return {at(key), where_, place(key)}; }
  /// An element of an array as if it were a member of an object: errors then name "key[i]".
  [[nodiscard]] static json element(const std::string& key, std::size_t i, const json& value) {
    return {{key + "[" + std::to_string(i) + "]", value}};
  }

 private:
  static bool legal_name(const std::string& text) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    return !text.empty() && text.size() <= kLongestName && letter(text[0]) &&
           std::all_of(text.begin(), text.end(),
                       [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; });
  }
  [[nodiscard]] std::string place(const std::string& key) const {
    return path_.empty() ? key : path_ + "." + key;
  }

  const json* object_;
  std::string where_;
  std::string path_;
};

bool positive(double value) {
  return value > 0;
}
bool not_negative(double value) {
  return value >= 0;
}
bool above_one(double value) {
  return value > 1;
}
bool any(double /*value*/) {
  return true;
}

PixelDitConfig read_network(const Reader& network) {
  network.only(
      {"channels", "patch", "width", "heads", "head_dim", "layers", "classes", "mlp_ratio", "rope_theta"});
  PixelDitConfig config;
  config.channels = network.integer("channels", 1, 1024);
  config.patch = network.integer("patch", 1, 256);
  config.width = network.integer("width", 1, 65536);
  config.heads = network.integer("heads", 1, 4096);
  config.head_dim = network.integer("head_dim", 4, 4096);
  if (config.head_dim % 4 != 0) {
    network.fail("head_dim", "a multiple of 4");
  }
  config.layers = network.integer("layers", 1, 1000);
  config.classes = network.integer("classes", 1, 100000);
  config.mlp_ratio = network.integer("mlp_ratio", 1, 64);
  config.rope_theta = network.number("rope_theta", "a number above 1", above_one);
  return config;
}

std::vector<std::string> read_class_names(const Reader& root, std::int64_t classes,
                                          const std::string& where) {
  const auto count = static_cast<std::size_t>(classes);
  const json& list = root.array("class_names", count, count);
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json holder = Reader::element("class_names", i, list[i]);
    const Reader reader(holder, where, "");
    const std::string key = holder.begin().key();
    names.push_back(reader.name(key));
    if (!seen.insert(names.back()).second) {
      reader.fail(key, "a name that no other class has");
    }
  }
  return names;
}

std::vector<ChannelScale> read_channels(const Reader& root, std::int64_t channels, const std::string& where) {
  const auto count = static_cast<std::size_t>(channels);
  const json& list = root.array("channels", count, count);
  std::vector<ChannelScale> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Reader channel(list[i], where, "channels[" + std::to_string(i) + "]");
    channel.only({"name", "mean", "scale"});
    result.push_back({channel.name("name"), channel.number("mean", "a finite number", any),
                      channel.number("scale", "a number above 0", positive)});
  }
  return result;
}

std::vector<std::int64_t> read_sizes(const Reader& root, std::int64_t patch, const std::string& where) {
  const json& list = root.array("trained_sizes", 1, 64);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json holder = Reader::element("trained_sizes", i, list[i]);
    const Reader reader(holder, where, "");
    const std::string key = holder.begin().key();
    sizes.push_back(reader.integer(key, 1, kMostPixels));
    if (sizes.back() % patch != 0) {
      reader.fail(key, "a multiple of network.patch = " + std::to_string(patch));
    }
  }
  return sizes;
}

void expect_text(const Reader& root, const std::string& key, const std::string& expected) {
  if (root.at(key) != json(expected)) {
    root.fail(key, "\"" + expected + "\"");
  }
}

}  // namespace

ModelConfig parse_model_config(const std::string& text, const std::string& where) {
  const json document = parse_strict_json(text, where);
  const Reader root(document, where, "");
  expect_text(root, "_class_name", "PixelDit");  // first: another model's keys are not worth a complaint
  root.only({"_class_name", "network", "class_names", "channels", "trained_sizes", "scheduler", "guidance",
             "steps"});
  ModelConfig config;
  config.network = read_network(root.object("network"));
  config.class_names = read_class_names(root, config.network.classes, where);
  config.channels = read_channels(root, config.network.channels, where);
  config.trained_sizes = read_sizes(root, config.network.patch, where);
  expect_text(root, "scheduler", "flow_match_euler");
  config.scheduler = root.at("scheduler").get<std::string>();
  config.guidance = root.number("guidance", "a number from 0", not_negative);
  config.steps = static_cast<int>(root.integer("steps", 1, 1000));
  return config;
}

std::string to_json(const ModelConfig& config) {
  const PixelDitConfig& network = config.network;
  nlohmann::ordered_json out;
  out["_class_name"] = "PixelDit";
  out["network"] = {
      {"channels", network.channels}, {"patch", network.patch},         {"width", network.width},
      {"heads", network.heads},       {"head_dim", network.head_dim},   {"layers", network.layers},
      {"classes", network.classes},   {"mlp_ratio", network.mlp_ratio}, {"rope_theta", network.rope_theta}};
  out["class_names"] = config.class_names;
  out["channels"] = nlohmann::ordered_json::array();
  for (const ChannelScale& channel : config.channels) {
    out["channels"].push_back({{"name", channel.name}, {"mean", channel.mean}, {"scale", channel.scale}});
  }
  out["trained_sizes"] = config.trained_sizes;
  out["scheduler"] = config.scheduler;
  out["guidance"] = config.guidance;
  out["steps"] = config.steps;
  return out.dump(2) + "\n";
}

int class_named(const ModelConfig& config, const std::string& text) {
  const auto found = std::find(config.class_names.begin(), config.class_names.end(), text);
  if (found != config.class_names.end()) {
    return static_cast<int>(found - config.class_names.begin());
  }
  const bool digits = !text.empty() && text.size() <= 9 &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (digits && std::stoul(text) < config.class_names.size()) {
    return static_cast<int>(std::stoul(text));
  }
  std::string known;
  for (const std::string& name : config.class_names) {
    known += (known.empty() ? "" : ", ") + name;
  }
  throw std::invalid_argument("class '" + text + "': expected a number from 0 to " +
                              std::to_string(static_cast<std::int64_t>(config.class_names.size()) - 1) +
                              " or one of " + known);
}

}  // namespace dit
