#include <algorithm>
#include <set>
#include <stdexcept>

#include "json/json_object.hpp"
#include "json/strict_json.hpp"
#include "weights/model_files.hpp"

namespace dit {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostPixels = 16384;  // a side

bool positive(double value) {
  return value > 0;
}
bool not_negative(double value) {
  return value >= 0;
}
bool any(double /*value*/) {
  return true;
}

/// The reader of the file's "_class_name".
NetworkReader reader_of(const JsonObject& root, const NetworkRegistry& networks) {
  const json& name = root.at("_class_name");
  const auto found = name.is_string() ? networks.find(name.get<std::string>()) : networks.end();
  if (found == networks.end()) {
    std::string known;
    for (const auto& [class_name, reader] : networks)
      known += (known.empty() ? "\"" : " or \"") + class_name + "\"";
    root.fail("_class_name", known);
  }
  return found->second;
}

std::vector<std::string> read_class_names(const JsonObject& root, std::int64_t classes,
                                          const std::string& where) {
  const auto count = static_cast<std::size_t>(classes);
  const json& list = root.array("class_names", count, count);
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json holder = JsonObject::element("class_names", i, list[i]);
    const JsonObject reader(holder, where, "");
    const std::string key = holder.begin().key();
    names.push_back(reader.name(key));
    if (!seen.insert(names.back()).second) {
      reader.fail(key, "a name that no other class has");
    }
  }
  return names;
}

std::vector<ChannelScale> read_channels(const JsonObject& root, std::int64_t channels,
                                        const std::string& where) {
  const auto count = static_cast<std::size_t>(channels);
  const json& list = root.array("channels", count, count);
  std::vector<ChannelScale> result;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonObject channel(list[i], where, "channels[" + std::to_string(i) + "]");
    channel.only({"name", "mean", "scale"});
    result.push_back({channel.name("name"), channel.number("mean", "a finite number", any),
                      channel.number("scale", "a number above 0", positive)});
  }
  return result;
}

std::vector<std::int64_t> read_sizes(const JsonObject& root, std::int64_t patch, const std::string& where) {
  const json& list = root.array("trained_sizes", 1, 64);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const json holder = JsonObject::element("trained_sizes", i, list[i]);
    const JsonObject reader(holder, where, "");
    const std::string key = holder.begin().key();
    sizes.push_back(reader.integer(key, 1, kMostPixels));
    if (sizes.back() % patch != 0) {
      reader.fail(key, "a multiple of network.patch = " + std::to_string(patch));
    }
  }
  return sizes;
}

void expect_text(const JsonObject& root, const std::string& key, const std::string& expected) {
  if (root.at(key) != json(expected)) {
    root.fail(key, "\"" + expected + "\"");
  }
}

}  // namespace

ModelConfig parse_model_config(const std::string& text, const std::string& where,
                               const NetworkRegistry& networks) {
  const json document = parse_strict_json(text, where);
  const JsonObject root(document, where, "");
  const NetworkReader read_network =
      reader_of(root, networks);  // first: another model's keys are not worth a complaint
  root.only({"_class_name", "network", "class_names", "channels", "trained_sizes", "scheduler", "guidance",
             "steps"});
  ModelConfig config;
  config.network = read_network(root.object("network"));
  const ModelShape& shape = config.network->shape();
  config.class_names = read_class_names(root, shape.classes, where);
  config.channels = read_channels(root, shape.channels, where);
  config.trained_sizes = read_sizes(root, shape.patch, where);
  expect_text(root, "scheduler", "flow_match_euler");
  config.scheduler = root.at("scheduler").get<std::string>();
  config.guidance = root.number("guidance", "a number from 0", not_negative);
  config.steps = static_cast<int>(root.integer("steps", 1, 1000));
  return config;
}

std::string to_json(const ModelConfig& config) {
  nlohmann::ordered_json out;
  out["_class_name"] = config.network->class_name();
  out["network"] = config.network->to_json();
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
