#include "topology/json_reader.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

#include "memory/reserve.hpp"
#include "topology/topology.hpp"

namespace tapa {

namespace {

constexpr int max_depth = 16;

/// Follows the parser: remembers the keys of the open objects, and how deep it is.
class Watch {
 public:
  explicit Watch(const std::string& origin) : origin_(origin) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= max_depth) {
        throw std::invalid_argument(origin_ + ": nested deeper than " + std::to_string(max_depth) +
                                    " levels");
      }
      if (event == Event::object_start) keys_.emplace_back();
    } else if (event == Event::object_end) {
      keys_.pop_back();
    } else if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw std::invalid_argument(origin_ + ": key " + value.dump() + " is used twice in one object");
      }
    }
    return true;
  }

 private:
  const std::string& origin_;
  std::vector<std::set<std::string>> keys_;
};

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t longest = 60;
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  const std::string text = value.dump();
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& origin, std::size_t max_bytes) {
  memory::keep_reserve();  // values need memory even to end
  if (text.size() > max_bytes) {
    throw std::invalid_argument(origin + ": " + std::to_string(text.size()) + " bytes, expected at most " +
                                std::to_string(max_bytes));
  }
  try {
    return nlohmann::json::parse(text, Watch(origin));
  } catch (const nlohmann::json::exception& error) {
    const std::string what = error.what();  // "[json.exception.NAME.ID] words"
    const std::size_t words = what.find("] ");
    throw std::invalid_argument(
        origin + ": not JSON: " + (words == std::string::npos ? what : what.substr(words + 2)));
  }
}

void JsonReader::fail(const std::string& expected) const {
  fail_with(shown(*value_) + ", expected " + expected);
}

void JsonReader::fail_with(const std::string& message) const {
  throw std::invalid_argument(*origin_ + ": " + path_ + ": " + message);
}

std::vector<std::string> JsonReader::keys(std::size_t max) const {
  if (!value_->is_object() || value_->size() > max)
    fail("an object of at most " + std::to_string(max) + " members");
  std::vector<std::string> names;
  for (const auto& member : value_->items()) names.push_back(member.key());
  return names;
}

void JsonReader::require_format(const std::string& name) const {
  if (const JsonReader format = at("format"); format.text() != name) format.fail("\"" + name + "\"");
}

void JsonReader::only_keys(std::initializer_list<std::string_view> keys) const {
  if (!value_->is_object()) fail("an object");
  for (const auto& [key, member] : value_->items()) {
    if (key == "source" || key == "comment") {
      if (!member.is_string()) JsonReader(member, *origin_, path_ + "." + key).fail("a string");
      continue;
    }
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    std::string known;
    for (std::string_view k : keys) known += (known.empty() ? "" : ", ") + std::string(k);
    fail_with("unknown key " + nlohmann::json(key).dump() + ", expected one of " + known);
  }
}

JsonReader JsonReader::at(const std::string& key) const {
  if (!value_->is_object()) fail("an object");
  const auto member = value_->find(key);
  if (member == value_->end()) fail_with("key \"" + key + "\" is missing");
  return JsonReader(*member, *origin_, path_ + "." + key);
}

std::size_t JsonReader::size(std::size_t min, std::size_t max, const std::string& what) const {
  if (!value_->is_array() || value_->size() < min || value_->size() > max) {
    const std::string number =
        min == max ? std::to_string(min) : std::to_string(min) + " to " + std::to_string(max);
    fail("an array of " + number + " " + what);
  }
  return value_->size();
}

JsonReader JsonReader::at(std::size_t index) const {
  return JsonReader((*value_)[index], *origin_, path_ + "[" + std::to_string(index) + "]");
}

std::string plain_text(std::string text, std::size_t most) {
  text.resize(std::min(text.size(), most));
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = ' ';
    if (byte > 0x7f) c = '?';
  }
  return text;
}

std::string JsonReader::text(std::size_t max, bool may_be_empty) const {
  const std::string expected = "text of " + std::string(may_be_empty ? "0" : "1") + " to " +
                               std::to_string(max) + " bytes without control characters";
  if (!value_->is_string()) fail(expected);
  const auto& text = value_->get_ref<const std::string&>();
  const bool control =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control || text.size() > max || (text.empty() && !may_be_empty)) fail(expected);
  return text;
}

std::string JsonReader::identifier() const {
  const std::string expected = "a name of 1 to 32 letters, digits, '_', '-' or '.' that starts with a letter";
  if (!value_->is_string()) fail(expected);
  const auto& name = value_->get_ref<const std::string&>();
  if (!is_identifier(name)) fail(expected);
  return name;
}

int JsonReader::integer(int min, int max) const {
  const std::string expected = "an integer from " + std::to_string(min) + " to " + std::to_string(max);
  if (!value_->is_number_integer()) fail(expected);
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(INT32_MAX)) {
    fail(expected);  // would wrap in the signed read below
  }
  const auto number = value_->get<std::int64_t>();
  if (number < min || number > max) fail(expected);
  return static_cast<int>(number);
}

std::size_t JsonReader::bytes() const {
  if (!value_->is_number_unsigned()) fail("a number of bytes, 0 or more");
  return value_->get<std::size_t>();
}

bool JsonReader::boolean() const {
  if (!value_->is_boolean()) fail("true or false");
  return value_->get<bool>();
}

double JsonReader::positive(const std::string& unit) const {
  const std::string expected = "a number of " + unit + " above 0";
  if (!value_->is_number()) fail(expected);
  const double number = value_->get<double>();
  if (!std::isfinite(number) || number <= 0) fail(expected);
  return number;
}

std::optional<double> JsonReader::positive_or_none(const std::string& key, const std::string& unit) const {
  if (!has(key)) return std::nullopt;
  return at(key).positive(unit);
}

}  // namespace tapa
