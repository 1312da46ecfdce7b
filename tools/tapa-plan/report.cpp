#include "report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "explain/explain.hpp"
#include "explain/explain_format.hpp"
#include "explain/explain_shared.hpp"
#include "plan/device_cost.hpp"

namespace tapa::plan_tool {

namespace {

using Json = nlohmann::ordered_json;

/// Messages and bytes of the levels that cross NICs.
Traffic over_nics(const Cost& cost, const Topology& topology) {
  Traffic sum;
  for (auto l = static_cast<std::size_t>(topology.nic_level); l < topology.levels.size(); ++l) {
    sum.messages += cost.level_messages[l];
    sum.bytes += cost.level_bytes[l];
  }
  return sum;
}

std::size_t busiest_nic(const Cost& cost) {
  return cost.nic_bytes.empty() ? 0 : *std::max_element(cost.nic_bytes.begin(), cost.nic_bytes.end());
}

Traffic all_levels(const Cost& cost) {
  Traffic sum;
  for (std::size_t l = 0; l < cost.level_bytes.size(); ++l) {
    sum.messages += cost.level_messages[l];
    sum.bytes += cost.level_bytes[l];
  }
  return sum;
}

Json block_json(std::optional<std::size_t> bytes) {
  return bytes ? Json(*bytes) : Json(nullptr);
}

void add_device(Json& json, std::optional<std::size_t> block_bytes, const Topology& topology) {
  if (!block_bytes) return;
  if (const auto seconds = predict_device(topology, *block_bytes)) json["device_seconds"] = *seconds;
}

std::string head_of(std::optional<std::size_t> block_bytes, const std::string& why,
                    const Topology& topology) {
  std::string text = "blocks     " + (block_bytes ? bytes_words(*block_bytes) + " a pair" : "from a file") +
                     "\nwhy        " + why + "\n";
  if (!block_bytes) return text;
  if (const auto seconds = predict_device(topology, *block_bytes))
    text += "on GPUs    " + seconds_words(*seconds) + " predicted, buffers in their memory, device engine\n";
  return text;
}

}  // namespace

std::string text_of(const Shown& shown, const Topology& topology, const std::vector<int>& ranks) {
  std::string text =
      head_of(shown.block_bytes, shown.why, topology) + explain_text(shown.plan, topology, shown.cost);
  if (shown.defects) {
    text += shown.defects->empty()
                ? "\nverified: every block arrives once and in place, no race, no deadlock\n"
                : "\nDEFECTS\n";
    for (const Defect& d : *shown.defects)
      text += "  " + std::string(to_string(d.kind)) + ": " + d.what + "\n";
  }
  for (const int rank : ranks) text += "\n" + explain_rank(shown.plan, rank);
  return text;
}

std::string text_of(const ShownShared& shown, const Topology& topology, const std::vector<int>& ranks) {
  std::string text = head_of(shown.block_bytes, shown.why, topology) +
                     explain_shared_text(shown.counts, topology, shown.seconds);
  if (shown.verify) text += "\nnot verified: there are no messages to replay\n";
  for (const int rank : ranks)
    text += (rank == ranks.front() ? "\n" : "") + explain_shared_rank(shown.counts, rank);
  return text;
}

std::string json_of(const Shown& shown, const Topology& topology, bool steps) {
  Json json = Json::parse(explain_json(shown.plan, topology, shown.cost, steps));
  json["block_bytes"] = block_json(shown.block_bytes);
  json["why"] = shown.why;
  add_device(json, shown.block_bytes, topology);
  if (shown.defects) {
    json["defects"] = Json::array();
    for (const Defect& d : *shown.defects)
      json["defects"].push_back({{"kind", to_string(d.kind)}, {"what", d.what}});
  }
  return json.dump(2);
}

std::string json_of(const ShownShared& shown, const Topology& topology, bool steps) {
  Json json = Json::parse(explain_shared_json(shown.counts, topology, shown.seconds));
  json["block_bytes"] = block_json(shown.block_bytes);
  json["why"] = shown.why;
  add_device(json, shown.block_bytes, topology);
  if (shown.verify) json["defects"] = nullptr;
  if (steps) json["steps"] = std::vector<Json>(static_cast<std::size_t>(topology.ranks), Json::array());
  return json.dump(2);
}

std::string compare_text(const std::vector<Row>& rows, const Topology& topology, const std::string& why) {
  Table table({"plan", "predicted", "replayed", "messages", "most a rank sends", "over NICs",
               "bytes over NICs", "busiest NIC"});
  for (const Row& row : rows) {
    const std::string choice = to_string(row.candidate.choice);
    const std::string seconds = seconds_words(row.candidate.seconds);
    if (!row.cost) {
      table.add({choice, seconds, "-", "0", "0", "0", "0 B", "0 B"});  // there are no steps to replay
      continue;
    }
    const Traffic nics = over_nics(*row.cost, topology);
    table.add({choice, seconds, seconds_words(row.cost->seconds),
               std::to_string(all_levels(*row.cost).messages), std::to_string(row.sends),
               std::to_string(nics.messages), bytes_words(nics.bytes), bytes_words(busiest_nic(*row.cost))});
  }
  return why + "\n\n" + table.text();
}

std::string compare_json(const std::vector<Row>& rows, const Topology& topology, const std::string& why,
                         std::optional<std::size_t> block_bytes) {
  Json json = {{"schema", "tapa-plan/1"}, {"block_bytes", block_json(block_bytes)}, {"why", why}};
  json["compare"] = Json::array();
  for (const Row& row : rows) {
    const Traffic all = row.cost ? all_levels(*row.cost) : Traffic{};
    const Traffic nics = row.cost ? over_nics(*row.cost, topology) : Traffic{};
    json["compare"].push_back({{"choice", to_string(row.candidate.choice)},
                               {"seconds", row.candidate.seconds},
                               {"replayed_seconds", row.cost ? Json(row.cost->seconds) : Json(nullptr)},
                               {"messages", all.messages},
                               {"bytes", all.bytes},
                               {"most_sends", row.sends},
                               {"nic_messages", nics.messages},
                               {"nic_bytes", nics.bytes},
                               {"busiest_nic_bytes", row.cost ? busiest_nic(*row.cost) : 0}});
  }
  return json.dump(2);
}

}  // namespace tapa::plan_tool
