#include "exchange/plugin_config.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace dit {
namespace {

std::string list(std::initializer_list<std::string_view> keys) {
  std::string text;
  for (const std::string_view key : keys) text += (text.empty() ? "" : ", ") + std::string(key);
  return text.empty() ? "none" : text;
}

template <typename Number>
bool parse(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

PluginConfig::PluginConfig(const char* text, std::initializer_list<std::string_view> known_keys) {
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw ConfigError("config has '" + std::string(pair) + "', expected key=value");
    const std::string_view key = pair.substr(0, equals);
    if (std::find(known_keys.begin(), known_keys.end(), key) == known_keys.end())
      throw ConfigError("config has the unknown key '" + std::string(key) +
                        "', known keys: " + list(known_keys));
    if (!values_.emplace(key, pair.substr(equals + 1)).second)
      throw ConfigError("config has the key '" + std::string(key) + "' twice");
  }
}

bool PluginConfig::has(std::string_view key) const {
  return values_.find(key) != values_.end();
}

std::string PluginConfig::text(std::string_view key, std::string_view otherwise) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string(otherwise) : found->second;
}

int PluginConfig::integer(std::string_view key, int otherwise, int least, int most) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return otherwise;
  int number = 0;
  if (!parse(found->second, number) || number < least || number > most)
    throw ConfigError("config has " + found->first + "=" + found->second + ", expected a whole number from " +
                      std::to_string(least) + " to " + std::to_string(most));
  return number;
}

double PluginConfig::number(std::string_view key, double otherwise, double least) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return otherwise;
  double number = 0;
  if (!parse(found->second, number) || !std::isfinite(number) || number < least)
    throw ConfigError("config has " + found->first + "=" + found->second +
                      ", expected a number of at least " + std::to_string(least));
  return number;
}

}  // namespace dit
