#include "autotune/tuning_file.hpp"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "topology/json_reader.hpp"

namespace tapa {

namespace {

constexpr const char* format_name = "tapa-tuning/1";
constexpr std::size_t most_levels = 64;
constexpr std::size_t most_measurements = 100000;
constexpr std::size_t most_options = 64;
constexpr std::size_t longest_text = 4096;

TunedLevel read_level(const JsonReader& value) {
  value.only_keys({"name", "groups", "latency", "bandwidth", "shared_bandwidth", "message"});
  return {.name = value.at("name").identifier(),
          .groups = value.at("groups").integer(1, INT32_MAX),
          .latency = value.at("latency").positive("seconds"),
          .bandwidth = value.at("bandwidth").positive("bytes per second"),
          .shared_bandwidth = value.at("shared_bandwidth").positive("bytes per second"),
          .message = value.at("message").positive("seconds")};
}

std::vector<TunedLevel> read_levels(const JsonReader& list, int ranks) {
  std::vector<TunedLevel> levels;
  for (std::size_t i = 0, n = list.size(1, most_levels, "levels"); i < n; ++i) {
    const JsonReader value = list.at(i);
    levels.push_back(read_level(value));
    const int finer = i == 0 ? ranks : levels[i - 1].groups;
    if (levels[i].groups > finer) {
      value.at("groups").fail("at most " + std::to_string(finer) + " groups, as levels go from fast to slow");
    }
    if (std::any_of(levels.begin(), levels.end() - 1,
                    [&](const auto& l) { return l.name == levels[i].name; })) {
      value.at("name").fail("a name that no other level has");
    }
    if (i + 1 == n && levels[i].groups != 1) {
      value.at("groups").fail("1 group, as this is the last level");
    }
  }
  return levels;
}

std::vector<std::pair<std::string, std::string>> read_options(const JsonReader& object) {
  std::vector<std::pair<std::string, std::string>> options;
  for (const std::string& name : object.keys(most_options)) {
    const JsonReader value = object.at(name);
    options.emplace_back(name, value.is_number() ? value.json() : value.text());
  }
  return options;
}

Measurement read_measurement(const JsonReader& value, const std::vector<TunedLevel>& levels) {
  value.only_keys({"choice", "bytes", "seconds"});
  Measurement m;
  m.choice = read_choice(value.at("choice"));
  for (const std::string& split : m.choice.splits) {
    if (std::none_of(levels.begin(), levels.end(), [&](const TunedLevel& l) { return l.name == split; })) {
      value.at("choice").fail("a plan that splits at a level of this file, not at '" + split + "'");
    }
  }
  m.bytes = static_cast<std::size_t>(value.at("bytes").integer(0, INT32_MAX));
  m.seconds = value.at("seconds").positive("seconds");
  return m;
}

}  // namespace

Choice read_choice(const JsonReader& value) {
  try {
    return parse_choice(value.text(longest_text));
  } catch (const std::invalid_argument& error) {
    value.fail(std::string("a plan: ") + error.what());
  }
}

Tuning parse_tuning(const std::string& text, const std::string& path) {
  const std::string origin = "tuning file " + path;
  const nlohmann::json document = parse_json(text, origin, max_tuning_bytes);
  const JsonReader root(document, origin);
  root.require_format(format_name);
  Tuning tuning;
  if (root.has("options")) tuning.options = read_options(root.at("options"));
  if (root.has("options") && !root.has("ranks")) {
    root.only_keys({"format", "options"});
    return tuning;
  }
  root.only_keys({"format", "machine", "mpi", "date", "ranks", "levels", "copy", "nic_bandwidth",
                  "cores_per_rank", "measurements", "options"});
  tuning.machine = root.at("machine").text(longest_text, true);
  tuning.mpi = root.at("mpi").text(longest_text, true);
  tuning.date = root.at("date").text(longest_text, true);
  tuning.ranks = root.at("ranks").integer(1, INT32_MAX);
  tuning.levels = read_levels(root.at("levels"), tuning.ranks);
  tuning.copy = root.at("copy").positive("bytes per second");
  tuning.nic_bandwidth = root.positive_or_none("nic_bandwidth", "bytes per second").value_or(0);
  tuning.cores_per_rank = root.at("cores_per_rank").positive("cores");
  tuning.measurements =
      root.at("measurements").each(0, most_measurements, "measurements", [&](const JsonReader& value) {
        return read_measurement(value, tuning.levels);
      });
  return tuning;
}

std::string tuning_json(const Tuning& tuning) {
  nlohmann::ordered_json out;
  out["format"] = format_name;
  for (const auto& [name, value] : tuning.options) out["options"][name] = value;
  if (tuning.ranks == 0) return out.dump(1) + "\n";
  out["machine"] = tuning.machine;
  out["mpi"] = tuning.mpi;
  out["date"] = tuning.date;
  out["ranks"] = tuning.ranks;
  out["cores_per_rank"] = tuning.cores_per_rank;
  out["copy"] = tuning.copy;
  if (tuning.nic_bandwidth > 0) {
    out["nic_bandwidth"] = tuning.nic_bandwidth;
  }
  out["levels"] = nlohmann::ordered_json::array();
  for (const TunedLevel& level : tuning.levels) {
    out["levels"].push_back({{"name", level.name},
                             {"groups", level.groups},
                             {"latency", level.latency},
                             {"bandwidth", level.bandwidth},
                             {"shared_bandwidth", level.shared_bandwidth},
                             {"message", level.message}});
  }
  out["measurements"] = nlohmann::ordered_json::array();
  for (const Measurement& m : tuning.measurements) {
    out["measurements"].push_back(
        {{"choice", to_string(m.choice)}, {"bytes", m.bytes}, {"seconds", m.seconds}});
  }
  return out.dump(1) + "\n";
}

Rates tuned_rates(const Tuning& tuning, const Topology& topology, const Rates& base) {
  Rates rates = base;
  for (std::size_t i = 0; i < topology.levels.size() && i < rates.levels.size(); ++i) {
    for (const TunedLevel& level : tuning.levels) {
      if (level.name == topology.levels[i].name) {
        rates.levels[i] = {level.latency, level.bandwidth, level.message, rates.levels[i].links};
      }
    }
  }
  rates.copy = tuning.copy;
  if (tuning.nic_bandwidth > 0) {
    rates.nic_bandwidth = tuning.nic_bandwidth;
  }
  rates.cores_per_rank = tuning.cores_per_rank;
  return rates;
}

bool same_shape(const Tuning& tuning, const Topology& topology) {
  return tuning.ranks == topology.ranks &&
         std::equal(
             tuning.levels.begin(), tuning.levels.end(), topology.levels.begin(), topology.levels.end(),
             [](const TunedLevel& a, const Level& b) { return a.name == b.name && a.groups == b.groups; });
}

std::vector<Measurement> tuned_measurements(const Tuning& tuning, const Topology& topology) {
  return same_shape(tuning, topology) ? tuning.measurements : std::vector<Measurement>{};
}

}  // namespace tapa
