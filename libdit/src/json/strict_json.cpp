#include "json/strict_json.hpp"

#include <set>
#include <stdexcept>
#include <vector>

#include "files/input_file.hpp"
#include "memory/reserve.hpp"

namespace dit {
namespace {

constexpr int kDeepest = 8;
constexpr std::size_t kLongestShown = 60;

/// Follows the parser: remembers the keys of the open objects, and how deep it is.
class Watch {
 public:
  explicit Watch(const std::string& where) : where_(&where) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= kDeepest) {
      throw std::runtime_error(*where_ + ": nested deeper than " + std::to_string(kDeepest) + " levels");
    }
    if (event == Event::object_start) {
      keys_.emplace_back();
    } else if (event == Event::object_end) {
      keys_.pop_back();
    } else if (event == Event::key && !keys_.back().insert(value.get_ref<const std::string&>()).second) {
      throw std::runtime_error(*where_ + ": key " + shown(value) + " is used twice in one object");
    }
    return true;
  }

 private:
  const std::string* where_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& where) {
  memory::keep_reserve();  // values need memory even to end
  try {
    return nlohmann::json::parse(text, Watch(where));
  } catch (const nlohmann::json::exception& error) {
    const std::string what = error.what();  // "[json.exception.NAME.ID] words"
    const std::size_t words = what.find("] ");
    throw std::runtime_error(where +
                             ": not JSON: " + (words == std::string::npos ? what : what.substr(words + 2)));
  }
}

std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  try {
    return files::read_text(path, max_bytes);
  } catch (const files::FileError& error) {
    throw std::runtime_error(path.string() + ": cannot be read: " + error.what());
  }
}

std::string shown(const nlohmann::json& value) {
  if (value.is_array()) {
    return "an array of " + std::to_string(value.size());
  }
  if (value.is_object()) {
    return "an object of " + std::to_string(value.size());
  }
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kLongestShown ? text : text.substr(0, kLongestShown) + "...";
}

}  // namespace dit
