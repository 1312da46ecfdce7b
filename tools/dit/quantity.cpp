#include "quantity.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace dit::tool {

namespace {

template <typename T>
std::string digits_of(T value) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

struct Measured {
  double value = 0;
  std::string unit;  ///< in lower case
};

/// A number, then letters. False when there is no number, or one that is negative or not finite.
bool read_measured(const std::string& text, Measured& out) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, out.value);
  if (error != std::errc() || !std::isfinite(out.value) || std::signbit(out.value)) return false;
  out.unit.clear();
  for (const char c : std::string(rest, end)) {
    out.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return true;
}

using Units = std::initializer_list<std::pair<const char*, double>>;

/// Throws std::invalid_argument with `expected` when text is no number with one of the units.
double in_units(const std::string& text, Units units, const char* expected) {
  Measured measured;
  if (read_measured(text, measured)) {
    for (const auto& [unit, factor] : units) {
      if (measured.unit == unit) return measured.value * factor;
    }
  }
  throw std::invalid_argument("\"" + text + "\", expected " + expected);
}

/// The whole text as a number; throws std::invalid_argument when it is none from `least` to `most`.
template <typename T>
T within(const std::string& text, T least, T most, const std::string& kind) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most)) {
    throw std::invalid_argument("\"" + text + "\", expected a " + kind + " from " + digits_of(least) +
                                " to " + digits_of(most));
  }
  return value;
}

}  // namespace

std::uint64_t parse_bytes(const std::string& text) {
  constexpr double k = 1024;
  const char* expected = "a number of bytes such as 4096, 512MiB or 2GiB";
  const Units units = {{"", 1},
                       {"b", 1},
                       {"k", k},
                       {"kb", k},
                       {"kib", k},
                       {"m", k * k},
                       {"mb", k * k},
                       {"mib", k * k},
                       {"g", k * k * k},
                       {"gb", k * k * k},
                       {"gib", k * k * k},
                       {"t", k * k * k * k},
                       {"tb", k * k * k * k},
                       {"tib", k * k * k * k}};
  const double bytes = in_units(text, units, expected);
  if (bytes > 0x1p62) throw std::invalid_argument("\"" + text + "\", expected " + expected);
  return static_cast<std::uint64_t>(bytes);
}

double parse_rate(const std::string& text) {
  const char* expected = "a rate such as 100mbit, 10gbit or 1.5GB (a second)";
  const double rate = in_units(text,
                               {{"kbit", 1e3 / 8},
                                {"mbit", 1e6 / 8},
                                {"gbit", 1e9 / 8},
                                {"tbit", 1e12 / 8},
                                {"kb", 1e3},
                                {"mb", 1e6},
                                {"gb", 1e9},
                                {"tb", 1e12}},
                               expected);
  if (rate <= 0) throw std::invalid_argument("\"" + text + "\", expected " + expected);
  return rate;
}

double parse_flops(const std::string& text) {
  const char* expected = "operations a second such as 20gflops or 1.5tflops";
  const double flops = in_units(
      text,
      {{"", 1}, {"mflops", 1e6}, {"gflops", 1e9}, {"tflops", 1e12}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12}},
      expected);
  if (flops <= 0) throw std::invalid_argument("\"" + text + "\", expected " + expected);
  return flops;
}

double parse_duration(const std::string& text) {
  return in_units(text, {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}},
                  "a time such as 50us, 0.2ms or 30s");
}

double parse_decibels(const std::string& text) {
  const std::string digits = text.ends_with("dB") ? text.substr(0, text.size() - 2) : text;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !(value > 0 && value <= 200)) {
    throw std::invalid_argument("\"" + text + "\", expected decibels, such as 35dB, up to 200");
  }
  return value;
}

std::int64_t parse_whole(const std::string& text, std::int64_t least, std::int64_t most) {
  return within(text, least, most, "whole number");
}

double parse_number(const std::string& text, double least, double most) {
  return within(text, least, most, "number");
}

ImageSize parse_size(const std::string& text) {
  const auto side = [&](const std::string& word) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 1 || value > 16384) {
      throw std::invalid_argument("\"" + text +
                                  "\", expected pixels as N or HEIGHTxWIDTH, each from 1 to 16384");
    }
    return value;
  };
  const std::size_t cross = text.find('x');
  if (cross == std::string::npos) return {side(text), side(text)};
  return {side(text.substr(0, cross)), side(text.substr(cross + 1))};
}

std::vector<std::string> parse_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  if (words.empty() || text.back() == ',') words.emplace_back();
  for (const std::string& word : words) {
    if (word.empty()) throw std::invalid_argument("\"" + text + "\", expected words with a comma between");
  }
  return words;
}

std::vector<int> parse_rank_counts(const std::string& text, int most) {
  std::set<int> counts;
  for (const std::string& word : parse_words(text))
    counts.insert(static_cast<int>(parse_whole(word, 1, most)));
  return {counts.begin(), counts.end()};
}

std::string bytes_text(double bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  return (unit == 0 ? digits_of(static_cast<std::int64_t>(bytes)) : figure(bytes)) + " " + units[unit];
}

std::string exact_text(double value) {
  return digits_of(value);
}

std::string figure(double value) {
  if (!std::isfinite(value)) return value > 0 ? "inf" : "-";
  const double size = std::abs(value);
  std::array<char, 64> text{};
  const int decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 || size == 0 ? 2 : 3;
  if (size != 0 && size < 0.01) {
    std::snprintf(text.data(), text.size(), "%.2e", value);
  } else {
    std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  }
  return text.data();
}

std::string counted(std::int64_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

}  // namespace dit::tool
