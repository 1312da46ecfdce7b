/// One object of a JSON file that nobody vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

namespace dit {

/// An object with its place in its file: what does not fit throws std::runtime_error that names file, key,
/// value and what was expected. The JSON must outlive it.
class JsonObject {
 public:
  /// `where`: the file; `path`: of the object in it, "" for all of it.
  JsonObject(const nlohmann::json& object, std::string where, std::string path);

  /// Refuses other keys.
  void only(std::initializer_list<const char*> keys) const;
  [[nodiscard]] const nlohmann::json& at(const std::string& key) const;
  [[noreturn]] void fail(const std::string& key, const std::string& expected) const;

  [[nodiscard]] std::int64_t integer(const std::string& key, std::int64_t min, std::int64_t max) const;
  /// Finite, and as `legal` says.
  [[nodiscard]] double number(const std::string& key, const std::string& expected,
                              bool (*legal)(double)) const;
  /// Printable and not a number: names and numbers of classes are told apart by it.
  [[nodiscard]] std::string name(const std::string& key) const;
  [[nodiscard]] const nlohmann::json& array(const std::string& key, std::size_t min, std::size_t max) const;
  [[nodiscard]] JsonObject object(const std::string& key) const;
  /// An element of an array as if it were a member of an object: errors then name "key[i]".
  [[nodiscard]] static nlohmann::json element(const std::string& key, std::size_t i,
                                              const nlohmann::json& value);

 private:
  [[nodiscard]] std::string place(const std::string& key) const {
    return path_.empty() ? key : path_ + "." + key;
  }

  const nlohmann::json* object_;
  std::string where_;
  std::string path_;
};

}  // namespace dit
