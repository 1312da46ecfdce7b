/// @file
/// Reads untrusted JSON strictly: every value is checked for kind and range before use, and an error says
/// which file, which path in it, what stands there and what was expected.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tapa {

/// Parses JSON text. `origin` (a file name) starts every error message.
/// Throws std::invalid_argument for malformed text, invalid UTF-8, a key that is used twice in one object,
/// nesting deeper than 16, or more than `max_bytes` of text.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& origin,
                                        std::size_t max_bytes);

/// Text of others (a library's version) as JsonReader::text(most) takes it: control characters become blanks,
/// other bytes that are not ASCII question marks.
[[nodiscard]] std::string plain_text(std::string text, std::size_t most);

/// One value of a parsed document, with its path. Holds references: document and origin must outlive it.
/// All checks throw std::invalid_argument: "ORIGIN: $.path: VALUE, expected WHAT".
class JsonReader {
 public:
  JsonReader(const nlohmann::json& value, const std::string& origin, std::string path = "$")
      : value_(&value), origin_(&origin), path_(std::move(path)) {}

  /// Checks that this is an object whose member "format" is this text.
  void require_format(const std::string& name) const;
  /// Checks that this is an object with no other keys than these; "source" and "comment" (strings) always may
  /// stand.
  void only_keys(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] bool has(const std::string& key) const { return value_->contains(key); }
  /// The member `key` of an object; it must be there.
  [[nodiscard]] JsonReader at(const std::string& key) const;

  /// Number of elements of an array that must have between `min` and `max`; `what` names them in the error.
  [[nodiscard]] std::size_t size(std::size_t min, std::size_t max, const std::string& what) const;
  [[nodiscard]] JsonReader at(std::size_t index) const;
  /// What `read` makes of each element of such an array.
  template <class Read>
  [[nodiscard]] auto each(std::size_t min, std::size_t max, const std::string& what, const Read& read) const {
    std::vector<decltype(read(*this))> all;
    for (std::size_t i = 0, n = size(min, max, what); i < n; ++i) all.push_back(read(at(i)));
    return all;
  }

  /// Text of 1 (or 0 with `may_be_empty`) to `max` bytes without control characters.
  [[nodiscard]] std::string text(std::size_t max = 256, bool may_be_empty = false) const;
  /// An identifier of 1 to 32 letters, digits, '_', '-', '.' that starts with a letter.
  [[nodiscard]] std::string identifier() const;
  [[nodiscard]] int integer(int min, int max) const;
  /// A whole number of bytes, 0 or more.
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] bool boolean() const;
  /// A finite number above 0; `unit` is named in the error.
  [[nodiscard]] double positive(const std::string& unit) const;
  /// positive() of a member that may be missing.
  [[nodiscard]] std::optional<double> positive_or_none(const std::string& key, const std::string& unit) const;

  /// The keys of an object of at most `max` members.
  [[nodiscard]] std::vector<std::string> keys(std::size_t max) const;
  [[nodiscard]] bool is_object() const { return value_->is_object(); }
  [[nodiscard]] bool is_number() const { return value_->is_number(); }
  /// This value as text.
  [[nodiscard]] std::string json() const { return value_->dump(); }

  /// Throws: this value is not `expected`.
  [[noreturn]] void fail(const std::string& expected) const;
  /// Throws with a message of its own instead of the value.
  [[noreturn]] void fail_with(const std::string& message) const;

 private:
  const nlohmann::json* value_;
  const std::string* origin_;
  std::string path_;
};

}  // namespace tapa
