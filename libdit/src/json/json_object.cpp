#include "json/json_object.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "json/strict_json.hpp"

namespace dit {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestName = 64;

bool legal_name(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !text.empty() && text.size() <= kLongestName && letter(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-'; });
}

}  // namespace

JsonObject::JsonObject(const json& object, std::string where, std::string path)
    : object_(&object), where_(std::move(where)), path_(std::move(path)) {
  if (!object.is_object()) {
    throw std::runtime_error(where_ + ": " + (path_.empty() ? "the file" : path_) + " = " + shown(object) +
                             ", expected an object");
  }
}

void JsonObject::only(std::initializer_list<const char*> keys) const {
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

const json& JsonObject::at(const std::string& key) const {
  const auto found = object_->find(key);
  if (found == object_->end()) {
    throw std::runtime_error(where_ + ": key \"" + place(key) + "\" is missing");
  }
  return *found;
}

void JsonObject::fail(const std::string& key, const std::string& expected) const {
  throw std::runtime_error(where_ + ": " + place(key) + " = " + shown(at(key)) + ", expected " + expected);
}

std::int64_t JsonObject::integer(const std::string& key, std::int64_t min, std::int64_t max) const {
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

double JsonObject::number(const std::string& key, const std::string& expected, bool (*legal)(double)) const {
  const json& value = at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || !legal(value.get<double>())) {
    fail(key, expected);
  }
  return value.get<double>();
}

std::string JsonObject::name(const std::string& key) const {
  const json& value = at(key);
  if (!value.is_string() || !legal_name(value.get_ref<const std::string&>())) {
    fail(key, "a name of 1 to 64 letters, digits, '_' and '-' that begins with a letter");
  }
  return value.get<std::string>();
}

const json& JsonObject::array(const std::string& key, std::size_t min, std::size_t max) const {
  const json& value = at(key);
  if (!value.is_array() || value.size() < min || value.size() > max) {
    fail(key, "an array of " +
                  (min == max ? std::to_string(min) : std::to_string(min) + " to " + std::to_string(max)));
  }
  return value;
}

JsonObject JsonObject::object(const std::string& key) const {
  return {at(key), where_, place(key)};
}

json JsonObject::element(const std::string& key, std::size_t i, const json& value) {
  return {{key + "[" + std::to_string(i) + "]", value}};
}

}  // namespace dit
