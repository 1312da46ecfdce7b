#include <nlohmann/json.hpp>

#include "info.hpp"
#include "topology/topology_file.hpp"

namespace tapa::info {

std::string as_json(const Topology& topology, const std::vector<Record>& records,
                    const std::optional<DeviceBuffers>& devices, const std::string& results) {
  using Json = nlohmann::ordered_json;
  Json out = {{"schema", "tapa-info/1"}};
  out["topology"] = Json::parse(write_topology(topology));
  for (const SourceReport& s : topology.sources) {
    out["sources"].push_back({{"name", s.name}, {"used", s.used}, {"detail", s.detail}});
  }
  const std::vector<std::vector<int>> nodes = ranks_of_nodes(topology);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    Json node = {{"name", node_name(topology, records, static_cast<int>(n))}, {"ranks", nodes[n]}};
    if (!records.empty()) {
      const Record& record = records[static_cast<std::size_t>(nodes[n][0])];
      node["cores"] = record.cores;
      node["facts"] = Json::parse(to_json(record)).at("facts");
    }
    out["nodes"].push_back(std::move(node));
  }
  if (devices) {
    const auto decision = [](const DeviceDecision& d) {
      return Json{{"way", to_string(d.way)}, {"why", d.why}};
    };
    out["device_buffers"] = {{"all_ranks", decision(devices->world)}, {"node", decision(devices->node)}};
  }
  if (!results.empty()) out["learnt"] = results;
  out["hints"] = Json::array();
  for (const Hint& h : find_hints(topology, records)) {
    out["hints"].push_back({{"kind", h.kind}, {"text", h.text}, {"advice", h.advice}});
  }
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tapa::info
