#include "report/report_json.hpp"

#include <nlohmann/json.hpp>

namespace tapa {

namespace {

using Json = nlohmann::ordered_json;

Json row_json(const ReportRow& row) {
  Json samples = Json::array();
  for (const Sample& sample : row.samples) samples.push_back({{"tapa", sample.tapa}, {"mpi", sample.mpi}});
  return {{"communicator", row.communicator},
          {"rank", row.rank},
          {"ranks", row.ranks},
          {"function", row.function},
          {"bytes_per_pair", row.size_class},
          {"plan", row.plan},
          {"forwarded", row.forwarded},
          {"calls", row.calls},
          {"bytes", row.bytes},
          {"untimed", row.untimed},
          {"seconds", row.seconds},
          {"samples", std::move(samples)}};
}

Json lateness_json(const Lateness& lateness) {
  Json late = Json::array();
  for (const Lateness::Rank& rank : lateness.late) {
    late.push_back(
        {{"rank", rank.rank}, {"last", rank.last}, {"calls", rank.calls}, {"waited", rank.waited}});
  }
  return {{"calls", lateness.calls},
          {"waiting", lateness.waiting},
          {"transfer", lateness.transfer},
          {"late", std::move(late)}};
}

Json load_json(const NicLoad& load) {
  return {{"bytes", load.bytes}, {"seconds", load.seconds}};
}

Json head_json(const ReportHead& head) {
  Json out = {{"ranks", head.ranks},   {"seconds", head.seconds},
              {"setups", head.setups}, {"setup_seconds", head.setup_seconds},
              {"cache", head.results}, {"waiting", lateness_json(head.lateness)}};
  out["levels"] = Json::array();
  for (const LevelBytes& level : head.levels)
    out["levels"].push_back({{"name", level.name}, {"bytes", level.bytes}});
  if (head.order) {
    const LaunchOptions options = launch_options(*head.order);
    out["rank_order"] = {
        {"order", head.order->order == RankOrder::consecutive ? "consecutive" : "alternating"},
        {"now", load_json(head.order->now)},
        {"then", load_json(head.order->then)},
        {"launch", {{"open_mpi", options.open_mpi}, {"mpich", options.mpich}, {"slurm", options.slurm}}}};
  }
  return out;
}

}  // namespace

std::string report_json(const std::vector<ReportRow>& rows, const std::optional<ReportHead>& head) {
  ReportRows merged;
  for (const ReportRow& row : rows) merged.add(row);
  Json out = {{"format", "tapa-report/1"}};
  if (head) out["job"] = head_json(*head);
  out["rows"] = Json::array();
  for (const ReportRow& row : merged.rows()) {
    if (row.rank == 0 || head) out["rows"].push_back(row_json(row));
  }
  if (!head && out["rows"].empty()) return "";
  // Names are the program's, and may hold any bytes.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tapa
