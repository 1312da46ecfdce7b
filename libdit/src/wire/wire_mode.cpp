#include "wire/wire_mode.hpp"

#include <charconv>
#include <stdexcept>
#include <vector>

namespace dit {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) {
      words.push_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

[[noreturn]] void refuse(std::string_view text) {
  throw std::invalid_argument(
      "wire mode '" + std::string(text) +
      "': expected skip, or [late | rows FRACTION | v-major RATIO] [residual] FORMAT, where FRACTION is more "
      "than 0 and less than 1, RATIO from 0 to 1, and FORMAT full, bf16, fp8, int8, int4, int2 or int1");
}

std::optional<double> number_of(std::string_view word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && end == word.data() + word.size() ? std::optional(number) : std::nullopt;
}

/// The shortest text that reads back as the same number.
std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace

WireMode parse_wire_mode(std::string_view text) {
  std::vector<std::string_view> words = words_of(text);
  WireMode mode;
  if (words.size() == 1 && words[0] == "skip") {
    mode.skip = true;
    return mode;
  }
  std::size_t at = 0;
  if (words.size() >= 2 && words[0] == "rows") {
    mode.rows = number_of(words[1]).value_or(0);
    if (!(mode.rows > 0 && mode.rows < 1)) {
      refuse(text);
    }
    at = 2;
  } else if (words.size() >= 2 && words[0] == "v-major") {
    mode.stays = number_of(words[1]);
    if (!mode.stays || !(*mode.stays >= 0 && *mode.stays <= 1)) {
      refuse(text);
    }
    at = 2;
  } else if (words.size() >= 2 && words[0] == "late") {
    mode.late = true;
    at = 1;
  }
  if (at < words.size() && words[at] == "residual") {
    mode.residual = true;
    ++at;
  }
  if (at + 1 != words.size()) {
    refuse(text);
  }
  try {
    mode.format = parse_wire_format(words[at]);
  } catch (const std::invalid_argument&) {
    refuse(text);
  }
  return mode;
}

std::string to_string(const WireMode& mode) {
  if (mode.skip) {
    return "skip";
  }
  std::string text;
  if (mode.rows < 1) {
    text = "rows " + shortest(mode.rows) + " ";
  }
  text += mode.stays ? "v-major " + shortest(*mode.stays) + " " : "";
  text += mode.late ? "late " : "";
  return text + (mode.residual ? "residual " : "") + to_string(mode.format);
}

}  // namespace dit
