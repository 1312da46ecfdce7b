#include "validators.hpp"

#include <CLI/CLI.hpp>
#include <functional>
#include <stdexcept>
#include <utility>

#include "quantity.hpp"

namespace dit::tool {

namespace {

/// A validator that replaces the word by a number in base units.
CLI::Validator converting(std::function<std::string(const std::string&)> convert, const std::string& type) {
  return {[convert = std::move(convert)](std::string& text) {
            try {
              text = convert(text);
              return std::string();
            } catch (const std::invalid_argument& error) {
              return std::string(error.what());
            }
          },
          type};
}

/// A validator that leaves the word as it is; `check` throws.
CLI::Validator checking(std::function<void(const std::string&)> check, const std::string& type) {
  return converting(
      [check = std::move(check)](const std::string& text) {
        check(text);
        return text;
      },
      type);
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return checking([=](const std::string& text) { static_cast<void>(parse_whole(text, least, most)); }, "N");
}

CLI::Validator number(double least, double most) {
  return checking([=](const std::string& text) { static_cast<void>(parse_number(text, least, most)); }, "X");
}

CLI::Validator image_size() {
  return checking([](const std::string& text) { static_cast<void>(parse_size(text)); }, "SIZE");
}

CLI::Validator rank_counts(int most) {
  return checking([=](const std::string& text) { static_cast<void>(parse_rank_counts(text, most)); },
                  "N,...");
}

CLI::Validator comma_words() {
  return checking([](const std::string& text) { static_cast<void>(parse_words(text)); }, "WORD,...");
}

CLI::Validator any_but_empty(const std::string& expected) {
  return checking(
      [=](const std::string& text) {
        if (text.empty()) throw std::invalid_argument("\"\", expected " + expected);
      },
      "");
}

CLI::Validator bytes_value() {
  return converting([](const std::string& text) { return std::to_string(parse_bytes(text)); }, "BYTES");
}

CLI::Validator rate_value() {
  return converting([](const std::string& text) { return exact_text(parse_rate(text)); }, "RATE");
}

CLI::Validator flops_value() {
  return converting([](const std::string& text) { return exact_text(parse_flops(text)); }, "FLOPS");
}

CLI::Validator decibel_value() {
  return converting([](const std::string& text) { return exact_text(parse_decibels(text)); }, "DB");
}

CLI::Validator duration_value() {
  return converting([](const std::string& text) { return exact_text(parse_duration(text)); }, "TIME");
}

}  // namespace dit::tool
