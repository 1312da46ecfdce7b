#include "wire/wire_policy_file.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "json/strict_json.hpp"

namespace dit {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "dit-wire-policy";
constexpr int kVersion = 1;
constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
constexpr std::size_t kMostRules = 100'000;
constexpr std::size_t kLongestName = 200;
constexpr std::size_t kMostNames = 100;

/// An object of a file, read key by key.
class Object {
 public:
  Object(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) {
      throw std::runtime_error(where_ + ": " + shown(json) + ": expected an object");
    }
  }
  [[noreturn]] void refuse(const char* key, const std::string& expected) const {
    throw std::runtime_error(where_ + ": " + key + " is " +
                             (json_.contains(key) ? shown(json_.at(key)) : "not there") + ": expected " +
                             expected);
  }
  [[nodiscard]] bool has(const char* key) const { return json_.contains(key); }
  [[nodiscard]] const Json& at(const char* key) const { return json_.at(key); }
  void only(std::initializer_list<const char*> keys) const {
    for (const auto& item : json_.items()) {
      const std::string& key = item.key();
      if (std::none_of(keys.begin(), keys.end(), [&](const char* known) { return key == known; })) {
        std::string names;
        for (const char* known : keys) {
          names += (names.empty() ? "" : ", ") + std::string(known);
        }
        throw std::runtime_error(where_ + ": unknown key " + shown(key) + ": expected " + names);
      }
    }
  }
  [[nodiscard]] int whole(const char* key, int otherwise) const {
    if (!has(key)) {
      return otherwise;
    }
    return whole_number(at(key), [&] { refuse(key, "a whole number"); });
  }
  [[nodiscard]] double number(const char* key) const {
    if (has(key) && !at(key).is_number()) {
      refuse(key, "a number");
    }
    return has(key) ? at(key).get<double>() : 0;
  }
  [[nodiscard]] std::string text(const char* key) const {
    if (has(key) && (!at(key).is_string() || at(key).get_ref<const std::string&>().size() > kLongestName)) {
      refuse(key, "a text of at most " + std::to_string(kLongestName) + " bytes");
    }
    return has(key) ? at(key).get<std::string>() : "";
  }
  [[nodiscard]] std::vector<std::string> names(const char* key) const {
    std::vector<std::string> names;
    if (!has(key)) {
      return names;
    }
    const auto is_name = [](const Json& name) {
      return name.is_string() && name.get_ref<const std::string&>().size() <= kLongestName;
    };
    if (!at(key).is_array() || at(key).size() > kMostNames ||
        !std::all_of(at(key).begin(), at(key).end(), is_name)) {
      refuse(key, "an array of names, at most " + std::to_string(kMostNames));
    }
    for (const Json& name : at(key)) {
      names.push_back(name.get<std::string>());
    }
    return names;
  }
  [[nodiscard]] WireRange range(const char* key) const {
    if (!has(key)) {
      return {};
    }
    const auto fail = [&] { refuse(key, "two whole numbers, first and last"); };
    if (!at(key).is_array() || at(key).size() != 2) {
      fail();
    }
    return {whole_number(at(key)[0], fail), whole_number(at(key)[1], fail)};
  }

 private:
  template <typename Fail>
  static int whole_number(const Json& value, Fail fail) {
    constexpr int kMost = std::numeric_limits<int>::max();
    if (!value.is_number_integer() || value.get<double>() < -kMost || value.get<double>() > kMost) {
      fail();
    }
    return value.get<int>();
  }

  const Json& json_;
  std::string where_;
};

std::vector<AttentionTensor> tensors_of(const Object& rule) {
  std::vector<AttentionTensor> tensors;
  if (!rule.has("tensors")) {
    return tensors;
  }
  const auto fail = [&] { rule.refuse("tensors", "an array of q, k, v, o, each once, at least one"); };
  const Json& list = rule.at("tensors");
  if (!list.is_array() || list.empty()) {
    fail();
  }
  for (const Json& name : list) {
    for (int i = 0; i <= kAttentionTensors; ++i) {
      if (i == kAttentionTensors || !name.is_string()) {
        fail();
      }
      const auto tensor = static_cast<AttentionTensor>(i);
      if (name.get_ref<const std::string&>() != to_string(tensor)) {
        continue;
      }
      if (std::find(tensors.begin(), tensors.end(), tensor) != tensors.end()) {
        fail();
      }
      tensors.push_back(tensor);
      break;
    }
  }
  return tensors;
}

TokenPart tokens_of(const Object& rule) {
  const std::string text = rule.text("tokens");
  for (const TokenPart tokens : {TokenPart::all, TokenPart::text, TokenPart::image}) {
    if (text == to_string(tokens) || (text.empty() && !rule.has("tokens"))) {
      return tokens;
    }
  }
  rule.refuse("tokens", "text, image or all");
}

WireRule rule_of(const Json& json, const std::string& where) {
  const Object object(json, where);
  object.only({"mode", "tensors", "level", "layers", "steps", "every", "branch", "tokens"});
  WireRule rule;
  try {
    rule.mode = parse_wire_mode(object.text("mode"));
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(where + ": mode: " + error.what());
  }
  rule.tensors = tensors_of(object);
  rule.level = object.text("level");
  rule.layers = object.range("layers");
  rule.steps = object.range("steps");
  rule.every = object.whole("every", 1);
  rule.branch = object.whole("branch", -1);
  rule.tokens = tokens_of(object);
  return rule;
}

nlohmann::ordered_json json_of(const WireRule& rule) {
  nlohmann::ordered_json json;
  json["mode"] = to_string(rule.mode);
  if (!rule.tensors.empty()) {
    json["tensors"] = nlohmann::ordered_json::array();
    for (const AttentionTensor tensor : rule.tensors) {
      json["tensors"].push_back(to_string(tensor));
    }
  }
  if (!rule.level.empty()) {
    json["level"] = rule.level;
  }
  const auto add_range = [&](const char* key, const WireRange& range) {
    if (range != WireRange{}) {
      json[key] = {range.first, range.last};
    }
  };
  add_range("layers", rule.layers);
  add_range("steps", rule.steps);
  if (rule.every != 1) {
    json["every"] = rule.every;
  }
  if (rule.branch != -1) {
    json["branch"] = rule.branch;
  }
  if (rule.tokens != TokenPart::all) {
    json["tokens"] = to_string(rule.tokens);
  }
  return json;
}

}  // namespace

std::string to_json(const WirePolicy& policy) {
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["name"] = policy.name;
  json["momentum"] = policy.momentum;
  json["most_age"] = policy.most_age;
  json["guard"] = policy.guard;
  if (!policy.off.empty()) {
    json["off"] = policy.off;
  }
  json["rules"] = nlohmann::ordered_json::array();
  for (const WireRule& rule : policy.rules) {
    json["rules"].push_back(json_of(rule));
  }
  return json.dump(2) + "\n";
}

WirePolicy parse_wire_policy(std::string_view text, const std::string& where) {
  const Json json = parse_strict_json(text, where);
  const Object object(json, where);
  object.only({"format", "version", "name", "momentum", "most_age", "guard", "off", "rules"});
  if (object.text("format") != kFormat) {
    object.refuse("format", kFormat);
  }
  if (object.whole("version", 0) != kVersion) {
    object.refuse("version", std::to_string(kVersion));
  }
  WirePolicy policy;
  policy.name = object.text("name");
  policy.momentum = static_cast<float>(object.number("momentum"));
  policy.most_age = object.whole("most_age", 0);
  policy.guard = object.number("guard");
  policy.off = object.names("off");
  if (!object.has("rules") || !object.at("rules").is_array() || object.at("rules").size() > kMostRules) {
    object.refuse("rules", "an array of at most " + std::to_string(kMostRules));
  }
  for (std::size_t i = 0; i < object.at("rules").size(); ++i) {
    policy.rules.push_back(rule_of(object.at("rules")[i], where + ": rules[" + std::to_string(i) + "]"));
  }
  try {
    check(policy);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(where + ": " + error.what());
  }
  return policy;
}

WirePolicy read_wire_policy(const std::filesystem::path& path) {
  return parse_wire_policy(read_text_file(path, kMostBytes), path.string());
}

}  // namespace dit
