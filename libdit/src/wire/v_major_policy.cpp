// The V-Major rule as text.
#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "files/input_file.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

constexpr std::string_view kName = "v-major";
constexpr std::size_t kMostListBytes = std::size_t{1} << 20;  // of a file of ratios; a step takes some 20

std::string quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

[[noreturn]] void fail(std::string_view key, std::string_view value, const std::string& expected) {
  throw std::invalid_argument("v-major: " + std::string(key) + "=" + std::string(value) + ": expected " +
                              expected);
}

template <typename Number>
bool parse_whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

int parse_count(std::string_view key, std::string_view value) {
  int number = 0;
  if (!parse_whole(value, number) || number < 0) {
    fail(key, value, "a whole number of steps, at least 0");
  }
  return number;
}

bool is_ratio(std::string_view text, double& number) {
  return parse_whole(text, number) && number >= 0 && number <= 1;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? std::string_view{}
                                         : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string read_file(std::string_view value, const std::string& path) {
  try {
    return files::read_text(path, kMostListBytes);
  } catch (const files::FileError& error) {
    fail("ratio", value,
         "a file of at most " + std::to_string(kMostListBytes) + " bytes (" + error.what() + ")");
  }
}

// Numbers between separators; lines and words without a number are left out in files.
std::vector<double> parse_file_list(std::string_view value) {
  const std::string text = read_file(value, std::string(value.substr(1)));
  std::vector<double> list;
  int line_number = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    ++line_number;
    at = end + 1;
    while (!line.empty()) {
      const std::size_t comma = std::min(line.find(','), line.size());
      const std::string_view word = trimmed(line.substr(0, comma));
      line.remove_prefix(std::min(comma + 1, line.size()));
      if (word.empty()) {
        continue;
      }
      list.push_back(0);
      if (!is_ratio(word, list.back())) {
        fail("ratio", value,
             "numbers from 0 to 1, one for each step; line " + std::to_string(line_number) + " has " +
                 quoted(word.substr(0, 40)));
      }
    }
  }
  if (list.empty()) {
    fail("ratio", value, "numbers from 0 to 1, one for each step; the file has none");
  }
  return list;
}

std::vector<double> parse_inline_list(std::string_view value) {
  std::vector<double> list;
  for (std::string_view rest = value;;) {
    const std::size_t slash = rest.find('/');
    list.push_back(0);
    if (!is_ratio(rest.substr(0, slash), list.back())) {
      fail("ratio", value, "linear, a number from 0 to 1, such numbers with / between them, or @FILE");
    }
    if (slash == std::string_view::npos || slash + 1 == rest.size()) {
      return list;
    }
    rest.remove_prefix(slash + 1);
  }
}

RatioSchedule parse_ratio(std::string_view value) {
  RatioSchedule ratio;
  if (value == "linear") {
    return ratio;
  }
  const bool file = value.starts_with("@");
  std::vector<double> list = file ? parse_file_list(value) : parse_inline_list(value);
  if (list.size() == 1 && !file && value.find('/') == std::string_view::npos) {
    ratio.kind = RatioSchedule::Kind::constant;
    ratio.value = list.front();
  } else {
    ratio.kind = RatioSchedule::Kind::list;
    ratio.values = std::move(list);
  }
  return ratio;
}

constexpr std::string_view kResidual = "residual-";

void set_format(VMajorPolicy& policy, std::string_view value) {
  policy.residual = value.starts_with(kResidual);
  try {
    policy.format = parse_wire_format(policy.residual ? value.substr(kResidual.size()) : value);
  } catch (const std::invalid_argument&) {
    fail("format", value, "full, bf16, fp8, int8, int4, int2 or int1, also with residual- before it");
  }
}

std::string format_text(const VMajorPolicy& policy) {
  return (policy.residual ? std::string(kResidual) : "") + to_string(policy.format);
}

void set(VMajorPolicy& policy, std::string_view key, std::string_view value) {
  if (key == "warmup") {
    policy.warmup_steps = parse_count(key, value);
  } else if (key == "refresh") {
    policy.refresh_every = parse_count(key, value);
  } else if (key == "ratio") {
    policy.ratio = parse_ratio(value);
  } else if (key == "boundary") {
    if (value.empty()) {
      fail(key, value, "the name of a level");
    }
    policy.boundary = value;
  } else if (key == "format") {
    set_format(policy, value);
  } else {
    throw std::invalid_argument("v-major: " + std::string(key) + "=" + std::string(value) +
                                ": expected one of the keys warmup, refresh, ratio, boundary, format");
  }
}

// The shortest text that reads back as the same number.
std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

std::string to_string(const RatioSchedule& ratio) {
  if (ratio.kind != RatioSchedule::Kind::list) {
    return ratio.kind == RatioSchedule::Kind::linear ? "linear" : shortest(ratio.value);
  }
  std::string text;
  for (const double value : ratio.values) {
    text += shortest(value) + "/";
  }
  // One number alone would read as a constant: it keeps its slash.
  return ratio.values.size() == 1 ? text : text.substr(0, text.size() - 1);
}

}  // namespace

VMajorPolicy parse_v_major(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (text.substr(0, colon) != kName) {
    throw std::invalid_argument("policy " + quoted(text) + ": expected v-major or v-major:KEY=VALUE,...");
  }
  VMajorPolicy policy;
  if (colon == std::string_view::npos) {
    return policy;
  }
  for (std::string_view rest = text.substr(colon + 1);;) {
    const std::size_t comma = rest.find(',');
    const std::string_view setting = rest.substr(0, comma);
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) {
      throw std::invalid_argument("v-major: " + quoted(setting) + ": expected KEY=VALUE");
    }
    set(policy, setting.substr(0, equals), setting.substr(equals + 1));
    if (comma == std::string_view::npos) {
      return policy;
    }
    rest.remove_prefix(comma + 1);
  }
}

std::string to_string(const VMajorPolicy& policy) {
  return std::string(kName) + ":warmup=" + std::to_string(policy.warmup_steps) +
         ",refresh=" + std::to_string(policy.refresh_every) + ",ratio=" + to_string(policy.ratio) +
         (policy.boundary.empty() ? "" : ",boundary=" + policy.boundary) +
         (policy.residual || policy.format != WireFormat::full ? ",format=" + format_text(policy) : "");
}

VMajorPolicy published_v_major() {
  VMajorPolicy policy;
  policy.format = WireFormat::bf16;
  return policy;
}

WirePolicy wire_policy_of(const VMajorPolicy& policy, int steps) {
  WireRule rule;
  rule.level = policy.boundary;
  rule.mode.format = policy.format;
  rule.mode.residual = policy.residual;
  WirePolicy result;
  result.name = to_string(policy);
  result.rules = {rule};
  for (int step = 0; step < steps; ++step) {
    const StepDecision decision = decide_step(policy, step, steps);
    if (!decision.full) {
      rule.steps = {step, step};
      rule.mode.stays = decision.ratio;
      result.rules.push_back(rule);
    }
  }
  return result;
}

}  // namespace dit
