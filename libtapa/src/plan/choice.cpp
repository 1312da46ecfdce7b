#include "plan/choice.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <stdexcept>

#include "topology/topology.hpp"

namespace tapa {

namespace {

// Above these a setting can only be a slip of the keyboard.
constexpr int kMostInFlight = 1 << 20;
constexpr int kLargestRadix = 1 << 16;
constexpr int kMostLeaders = 1 << 20;
constexpr int kMostLots = 1024;

constexpr std::string_view kFlatForms = "linear, linear(WINDOW), pairwise or bruck(RADIX)";

struct Setting {
  std::string_view key;
  std::string_view value;
};

std::string quoted(std::string_view word) {
  return '"' + std::string(word) + '"';
}

std::vector<std::string_view> cut(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Reads one text; every error names it.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    const std::size_t colon = text.find(':');
    name_ = text.substr(0, colon);
    if (colon == std::string_view::npos) return;
    for (std::string_view part : cut(text.substr(colon + 1), ',')) {
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos)
        fail("setting " + quoted(part) + " has no value, expected key=value");
      add({part.substr(0, equals), part.substr(equals + 1)});
    }
  }

  [[nodiscard]] Choice choice() const {
    Choice choice;
    if (name_ == "mpi") {
      allow({});
      choice.algorithm = Algorithm::mpi;
    } else if (name_ == "memory") {
      allow({});
      choice.algorithm = Algorithm::memory;
    } else if (name_ == "linear") {
      allow({"window"});
      choice.flat.window = number("window", 0, 0, kMostInFlight);
    } else if (name_ == "pairwise") {
      allow({});
      choice.algorithm = Algorithm::pairwise;
      choice.flat.algorithm = FlatAlgorithm::pairwise;
    } else if (name_ == "bruck") {
      allow({"radix"});
      choice.algorithm = Algorithm::bruck;
      choice.flat.algorithm = FlatAlgorithm::bruck;
      choice.flat.radix = number("radix", 2, 2, kLargestRadix);
    } else if (name_ == "tapa") {
      allow({"split", "order", "fast", "slow", "pipeline"});
      choice.algorithm = Algorithm::tapa;
      if (is("order", "fast-first", "slow-first")) choice.order = PhaseOrder::slow_first;
      read_hierarchy(choice);
    } else if (name_ == "leaders") {
      allow({"split", "leaders", "local", "fast", "slow", "pipeline"});
      choice.algorithm = Algorithm::leaders;
      const Setting* leaders = find("leaders");
      choice.leaders =
          leaders && leaders->value == "all" ? 0 : number("leaders", 1, 1, kMostLeaders, " or all");
      choice.local_direct = !is("local", "direct", "leader");
      read_hierarchy(choice);
      if (choice.splits.size() > 1) {
        fail("split is " + quoted(find("split")->value) + ", expected one level: leaders cut once");
      }
    } else {
      fail("algorithm " + quoted(name_) +
           " is unknown, expected mpi, memory, linear, pairwise, bruck, tapa or leaders");
    }
    return choice;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw std::invalid_argument("plan " + quoted(text_) + ": " + reason);
  }

  void add(Setting setting) {
    if (find(setting.key)) fail("setting " + quoted(setting.key) + " is given twice");
    settings_.push_back(setting);
  }

  [[nodiscard]] const Setting* find(std::string_view key) const {
    const auto found =
        std::find_if(settings_.begin(), settings_.end(), [&](const Setting& s) { return s.key == key; });
    return found == settings_.end() ? nullptr : &*found;
  }

  void allow(std::initializer_list<std::string_view> keys) const {
    for (const Setting& s : settings_) {
      if (std::find(keys.begin(), keys.end(), s.key) != keys.end()) continue;
      std::string known;
      for (std::string_view key : keys) known += (known.empty() ? "" : ", ") + std::string(key);
      fail("setting " + quoted(s.key) + " is unknown to " + std::string(name_) + ", expected " +
           (known.empty()      ? "no settings"
            : keys.size() == 1 ? known
                               : "one of " + known));
    }
  }

  [[nodiscard]] int whole(std::string_view key, std::string_view value, int low, int high,
                          std::string_view or_else = "") const {
    int result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc{} || end != value.data() + value.size() || result < low || result > high) {
      fail(std::string(key) + " is " + quoted(value) + ", expected a whole number from " +
           std::to_string(low) + " to " + std::to_string(high) + std::string(or_else));
    }
    return result;
  }

  [[nodiscard]] int number(std::string_view key, int otherwise, int low, int high,
                           std::string_view or_else = "") const {
    const Setting* setting = find(key);
    return setting ? whole(key, setting->value, low, high, or_else) : otherwise;
  }

  /// Whether `key` has the second of its two values; the first is the default.
  [[nodiscard]] bool is(std::string_view key, std::string_view first, std::string_view second) const {
    const Setting* setting = find(key);
    if (!setting || setting->value == first) return false;
    if (setting->value != second) {
      fail(std::string(key) + " is " + quoted(setting->value) + ", expected " + std::string(first) + " or " +
           std::string(second));
    }
    return true;
  }

  void read_hierarchy(Choice& choice) const {
    const Setting* split = find("split");
    if (!split) fail("split is missing, expected the level whose groups are cut, for example split=node");
    for (std::string_view level : cut(split->value, '+')) {
      if (!is_identifier(level))
        fail("split is " + quoted(split->value) + ", expected level names joined by +");
      if (std::find(choice.splits.begin(), choice.splits.end(), level) != choice.splits.end()) {
        fail("split names level " + quoted(level) + " twice");
      }
      choice.splits.emplace_back(level);
    }
    if (const Setting* fast = find("fast")) choice.fast = flat(*fast);
    if (const Setting* slow = find("slow")) choice.slow = flat(*slow);
    choice.pipeline = number("pipeline", 1, 1, kMostLots);
  }

  [[nodiscard]] Flat flat(const Setting& setting) const {
    const std::size_t open = setting.value.find('(');
    const std::string_view name = setting.value.substr(0, open);
    std::string_view argument;
    if (open != std::string_view::npos) {
      if (setting.value.back() != ')')
        fail(std::string(setting.key) + " is " + quoted(setting.value) + ", expected a closing )");
      argument = setting.value.substr(open + 1, setting.value.size() - open - 2);
    }
    const bool has_argument = open != std::string_view::npos;
    Flat flat;
    if (name == "linear") {
      if (has_argument) flat.window = whole(std::string(setting.key) + " window", argument, 0, kMostInFlight);
    } else if (name == "pairwise" && !has_argument) {
      flat.algorithm = FlatAlgorithm::pairwise;
    } else if (name == "bruck") {
      flat.algorithm = FlatAlgorithm::bruck;
      if (has_argument) flat.radix = whole(std::string(setting.key) + " radix", argument, 2, kLargestRadix);
    } else {
      fail(std::string(setting.key) + " is " + quoted(setting.value) + ", expected " +
           std::string(kFlatForms));
    }
    return flat;
  }

  std::string_view text_;
  std::string_view name_;
  std::vector<Setting> settings_;
};

std::string hierarchy_text(const Choice& choice) {
  std::string text = ":split=";
  for (const std::string& level : choice.splits) text += (text.back() == '=' ? "" : "+") + level;
  if (choice.algorithm == Algorithm::tapa) {
    if (choice.order == PhaseOrder::slow_first) text += ",order=slow-first";
  } else {
    if (choice.leaders != 1)
      text += ",leaders=" + (choice.leaders == 0 ? "all" : std::to_string(choice.leaders));
    if (!choice.local_direct) text += ",local=leader";
  }
  if (choice.fast != Flat{}) text += ",fast=" + to_string(choice.fast);
  if (choice.slow != Flat{}) text += ",slow=" + to_string(choice.slow);
  if (choice.pipeline != 1) text += ",pipeline=" + std::to_string(choice.pipeline);
  return text;
}

}  // namespace

std::string to_string(const Flat& flat) {
  switch (flat.algorithm) {
    case FlatAlgorithm::linear:
      return flat.window == 0 ? "linear" : "linear(" + std::to_string(flat.window) + ")";
    case FlatAlgorithm::pairwise:
      return "pairwise";
    case FlatAlgorithm::bruck:
      return "bruck(" + std::to_string(flat.radix) + ")";
  }
  return {};
}

std::string to_string(const Choice& choice) {
  switch (choice.algorithm) {
    case Algorithm::mpi:
      return "mpi";
    case Algorithm::memory:
      return "memory";
    case Algorithm::linear:
      return choice.flat.window == 0 ? "linear" : "linear:window=" + std::to_string(choice.flat.window);
    case Algorithm::pairwise:
      return "pairwise";
    case Algorithm::bruck:
      return choice.flat.radix == 2 ? "bruck" : "bruck:radix=" + std::to_string(choice.flat.radix);
    case Algorithm::tapa:
      return "tapa" + hierarchy_text(choice);
    case Algorithm::leaders:
      return "leaders" + hierarchy_text(choice);
  }
  return {};
}

Choice parse_choice(std::string_view text) {
  return Parser(text).choice();
}

}  // namespace tapa
