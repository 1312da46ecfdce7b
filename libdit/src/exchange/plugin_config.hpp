/// A plugin's own settings: "key=value,key=value" of dit_open_options.
#pragma once

#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dit {

/// Settings that are wrong; the words are for DIT_ERROR_ARGUMENT.
class ConfigError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The settings of one context. Everything wrong throws ConfigError: an unknown key (the words list the known
/// ones), a key given twice, a pair without "=", a value of another form.
class PluginConfig {
 public:
  /// `text` may be null.
  PluginConfig(const char* text, std::initializer_list<std::string_view> known_keys);
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] int integer(std::string_view key, int otherwise, int least, int most) const;
  /// A finite number of `least` or more.
  [[nodiscard]] double number(std::string_view key, double otherwise, double least) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace dit
