#include <algorithm>
#include <nlohmann/json.hpp>

#include "explain/explain.hpp"

namespace tapa {

namespace {

using Json = nlohmann::ordered_json;

Json traffic_json(const Traffic& traffic) {
  return {{"messages", traffic.messages}, {"bytes", traffic.bytes}};
}

Json phase_json(const Phase& phase, const PhaseTraffic& traffic, const Topology& topology) {
  Json json = {{"name", phase.name}, {"level", nullptr}};
  if (phase.level >= 0) json["level"] = topology.levels[static_cast<std::size_t>(phase.level)].name;
  json.update(traffic_json(traffic.sent));
  json["busiest"] = traffic_json(traffic.busiest);
  json["copies"] = traffic.copied.messages;
  json["copied_bytes"] = traffic.copied.bytes;
  json["levels"] = Json::array();
  for (std::size_t l = 0; l < traffic.levels.size(); ++l) {
    if (traffic.levels[l].messages == 0) continue;
    Json level = {{"name", topology.levels[l].name}};
    level.update(traffic_json(traffic.levels[l]));
    json["levels"].push_back(level);
  }
  return json;
}

Json segments_json(std::span<const Segment> segments) {
  Json list = Json::array();
  for (const Segment& s : segments) {
    const char* buffer = s.buffer == Buffer::send ? "send" : s.buffer == Buffer::recv ? "recv" : "scratch";
    list.push_back({{"buffer", buffer}, {"block", s.block}, {"offset", s.offset}, {"bytes", s.bytes}});
  }
  return list;
}

Json steps_json(const RankPlan& rank) {
  Json list = Json::array();
  for (const Step& s : rank.steps) {
    const char* kind = s.kind == StepKind::send ? "send" : s.kind == StepKind::recv ? "recv" : "copy";
    Json step = {
        {"kind", kind}, {"phase", s.phase}, {"peer", s.peer}, {"channel", s.channel}, {"bytes", s.bytes}};
    if (s.kind != StepKind::recv) step["from"] = segments_json(rank.from(s));
    if (s.kind != StepKind::send) step["to"] = segments_json(rank.to(s));
    const auto deps = rank.deps_of(s);
    step["after"] = std::vector<std::uint32_t>(deps.begin(), deps.end());
    list.push_back(step);
  }
  return list;
}

}  // namespace

std::string explain_json(const Plan& plan, const Topology& topology, const Cost& cost, bool steps) {
  const std::vector<PhaseTraffic> traffic = phase_traffic(plan, topology);
  Traffic total;
  for (const PhaseTraffic& t : traffic) {
    total.messages += t.sent.messages;
    total.bytes += t.sent.bytes;
  }
  Json json = {
      {"schema", "tapa-plan/1"},    {"choice", plan.choice},   {"topology", topology.name},
      {"ranks", plan.ranks},        {"seconds", cost.seconds}, {"copy_seconds", cost.copy_seconds},
      {"messages", total.messages}, {"bytes", total.bytes},    {"scratch_bytes", most_scratch(plan)}};
  json["levels"] = Json::array();
  for (std::size_t l = 0; l < topology.levels.size(); ++l) {
    json["levels"].push_back({{"name", topology.levels[l].name},
                              {"messages", cost.level_messages[l]},
                              {"bytes", cost.level_bytes[l]},
                              {"seconds", cost.level_seconds[l]}});
  }
  json["nics"] = Json::array();
  for (std::size_t n = 0; n < topology.nics.size(); ++n) {
    const Nic& nic = topology.nics[n];
    json["nics"].push_back({{"name", nic.name}, {"node", nic.node}, {"bytes", cost.nic_bytes[n]}});
  }
  json["phases"] = Json::array();
  for (std::size_t p = 0; p < traffic.size(); ++p) {
    json["phases"].push_back(phase_json(plan.phases[p], traffic[p], topology));
  }
  if (steps) {
    json["steps"] = Json::array();
    for (const RankPlan& rank : plan.of_rank) json["steps"].push_back(steps_json(rank));
  }
  return json.dump(2) + "\n";
}

}  // namespace tapa
