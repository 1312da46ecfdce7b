#include "report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tapa::sim_tool {

namespace {

using Json = nlohmann::ordered_json;

// Libraries' own choices, which a user gets without asking.
constexpr std::array<const char*, 4> kSelectors = {"ompi", "mpich", "mvapich2", "impi"};

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* pattern, ...) {
  std::array<char, 512> text{};
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  return text.data();
}

double chosen_time(const Row& row) {
  const auto found = row.plans.find(row.choice);
  return found == row.plans.end() ? 0 : found->second;
}

std::string summary(const Report& report) {
  double worst = 1;
  std::size_t at = 0;
  double least = 1e300, logs = 0;
  int count = 0;
  for (const Row& row : report.rows) {
    if (row.regret > worst) worst = row.regret, at = row.bytes;
    const auto [name, time] = best_rival(row);
    if (!name.empty()) least = std::min(least, time / chosen_time(row));
    for (const char* selector : kSelectors) {
      const auto rival = row.rivals.find(selector);
      if (rival == row.rivals.end() || row.bytes >= 4096) continue;
      logs += std::log(rival->second / chosen_time(row));
      ++count;
    }
  }
  std::string text = format("largest regret %.3f", worst);
  if (worst > 1) text += format(" (%zu B)", at);
  if (least < 1e300) text += format("; against the best rival at least x%.2f", least);
  if (count > 0)
    text += format("; MPI's selectors below 4 KiB x%.2f (geometric mean)", std::exp(logs / count));
  return text + "\n";
}

}  // namespace

std::pair<std::string, double> best_rival(const Row& row) {
  std::pair<std::string, double> best{"", 0};
  for (const auto& [name, time] : row.rivals) {
    if (best.first.empty() || time < best.second) best = {name, time};
  }
  return best;
}

std::string report_text(const Report& report) {
  std::string text = format("%s, %d ranks on %d nodes, placed %s; simulated microseconds\n\n",
                            report.machine.c_str(), report.ranks, report.nodes, report.placement.c_str());
  text += format("%8s %11s %11s %7s  %-44s %s\n", "bytes", "choice", "predicted", "regret", "choice is",
                 "best plan; best rival");
  for (const Row& row : report.rows) {
    const auto [rival, time] = best_rival(row);
    const auto predicted = row.predicted.find(row.choice);
    text += format("%8zu %11.2f %11.2f %7.3f  %-44s", row.bytes, chosen_time(row),
                   predicted == row.predicted.end() ? 0 : predicted->second, row.regret, row.choice.c_str());
    if (row.best != row.choice) text += format(" %s %.2f;", row.best.c_str(), row.plans.at(row.best));
    if (!rival.empty()) text += format(" %s %.2f", rival.c_str(), time);
    text += row.checked ? "\n" : " (no data)\n";
  }
  return text + "\n" + summary(report);
}

std::string report_json(const Report& report) {
  Json out = {{"machine", report.machine},
              {"ranks", report.ranks},
              {"nodes", report.nodes},
              {"placement", report.placement},
              {"rows", Json::array()}};
  for (const Row& row : report.rows) {
    const auto predicted = row.predicted.find(row.choice);
    out["rows"].push_back({{"bytes", row.bytes},
                           {"plans", row.plans},
                           {"rivals", row.rivals},
                           {"predicted_us", predicted == row.predicted.end() ? 0 : predicted->second},
                           {"choice", row.choice},
                           {"regret", row.regret},
                           {"best", row.best},
                           {"predicted", row.predicted},
                           {"busiest_nic_bytes", row.busiest_nic_bytes},
                           {"checked", row.checked}});
  }
  return out.dump(1) + "\n";
}

}  // namespace tapa::sim_tool
