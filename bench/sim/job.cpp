#include "job.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "topology/input_file.hpp"
#include "topology/json_reader.hpp"

namespace tapa::sim {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t most_contenders = 4096;
constexpr std::size_t most_sizes = 4096;

/// share/tapa/simulated beside the share/tapa/machines that the library finds.
std::vector<fs::path> folders() {
  std::vector<fs::path> list;
  for (const std::string& machines : machine_folders()) {
    const fs::path folder = fs::path(machines).parent_path() / "simulated";
    if (fs::is_directory(folder)) list.push_back(folder);
  }
  return list;
}

std::string read_text(const std::string& path) {
  return read_input_file(path, max_topology_bytes, path, "a file of schema tapa-sim/1");
}

std::string find_file(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".json")) return name;
  for (const fs::path& folder : folders()) {
    const fs::path path = folder / (name + ".json");
    if (fs::exists(path)) return path.string();
  }
  std::string known;
  for (const std::string& machine : simulated_machines()) known += (known.empty() ? "" : ", ") + machine;
  throw std::invalid_argument("machine \"" + name +
                              "\" cannot be simulated, expected a file.json or one of " +
                              (known.empty() ? "(none found)" : known));
}

Parameters read_parameters(const JsonReader& file) {
  Parameters p;
  if (file.has("messages")) {
    const JsonReader messages = file.at("messages");
    messages.only_keys({"eager", "rendezvous", "incast"});
    if (messages.has("eager")) p.eager = static_cast<std::size_t>(messages.at("eager").integer(0, 1 << 30));
    p.rendezvous = messages.positive_or_none("rendezvous", "latencies").value_or(p.rendezvous);
    p.incast = messages.positive_or_none("incast", "times the bytes").value_or(p.incast);
  }
  return p;
}

Json parameters_json(const Parameters& p) {
  Json messages = {{"eager", p.eager}, {"rendezvous", p.rendezvous}};
  if (p.incast > 0) messages["incast"] = p.incast;
  return {{"messages", messages}};
}

}  // namespace

std::string write_job(const Job& job) {
  Json out = {{"topology", Json::parse(write_topology(job.topology))},
              {"parameters", parameters_json(job.parameters)},
              {"contenders", job.contenders},
              {"bytes", job.bytes},
              {"data_limit", job.data_limit},
              {"results", job.results}};
  return out.dump() + "\n";
}

Job read_job(const std::string& text, const std::string& origin) {
  const nlohmann::json document = parse_json(text, origin, max_topology_bytes);
  const JsonReader file(document, origin);
  file.only_keys({"topology", "parameters", "contenders", "bytes", "data_limit", "results"});
  Job job;
  job.topology = read_topology(file.at("topology").json(), origin);
  file.at("parameters").only_keys({"messages"});
  job.parameters = read_parameters(file.at("parameters"));
  const JsonReader contenders = file.at("contenders");
  for (std::size_t i = 0, n = contenders.size(1, most_contenders, "plans"); i < n; ++i)
    job.contenders.push_back(contenders.at(i).text());
  const JsonReader bytes = file.at("bytes");
  for (std::size_t i = 0, n = bytes.size(1, most_sizes, "sizes"); i < n; ++i)
    job.bytes.push_back(static_cast<std::size_t>(bytes.at(i).integer(0, 1 << 30)));
  job.data_limit = file.at("data_limit").bytes();
  job.results = file.at("results").text(4096);
  return job;
}

Simulated read_simulated(const std::string& text, const std::string& origin) {
  const nlohmann::json document = parse_json(text, origin, max_topology_bytes);
  const JsonReader file(document, origin);
  file.only_keys({"schema", "machine", "description", "messages"});
  if (file.at("schema").text() != "tapa-sim/1") file.at("schema").fail("\"tapa-sim/1\"");
  Simulated simulated;
  simulated.parameters = read_parameters(file);
  const JsonReader machine = file.at("machine");
  simulated.machine =
      machine.is_object() ? read_machine(machine.json(), origin + ": machine") : load_machine(machine.text());
  return simulated;
}

Simulated load_simulated(const std::string& name_or_path) {
  const std::string path = find_file(name_or_path);
  return read_simulated(read_text(path), path);
}

std::vector<std::string> simulated_machines() {
  std::vector<std::string> names;
  for (const fs::path& folder : folders()) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tapa::sim
