#include <cmath>

#include "bench_rows.hpp"
#include "quantity.hpp"
#include "run_words.hpp"
#include "text_table.hpp"

namespace dit::tool {

namespace {

std::string psnr_text(double psnr) {
  return std::isfinite(psnr) ? figure(psnr) : psnr > 0 ? "equal" : "not finite";
}

/// "balanced, off" where a preset is off on all levels between nodes, "partly off" where on some.
std::string policy_cell(const BenchRow& row) {
  const std::size_t off = levels_off(row.coding).size();
  return short_text(row.policy) + (off == 0 ? "" : off == row.coding.size() ? ", off" : ", partly off");
}

std::string schedule_name(const BenchRow& row) {
  return row.schedule ? to_string(*row.schedule) : "auto";
}

}  // namespace

std::string bench_table(const std::vector<BenchResult>& results) {
  TextTable table({"row", "plugin", "schedule", "policy", "step ms", "spread", "exposed ms", "slow/step",
                   "fast/step", "cache/rank", "PSNR dB", "worst", "SSIM", "ratio"});
  for (const BenchResult& r : results) {
    const bool judged = !r.quality.empty();
    table.add({r.row.name, r.row.plugin, schedule_name(r.row), policy_cell(r.row), figure(r.step_ms),
               figure(r.step_ms_low) + "-" + figure(r.step_ms_high), figure(r.exposed_ms),
               bytes_text(r.bytes_slow), bytes_text(r.bytes_fast),
               r.cache_bytes > 0 ? bytes_text(static_cast<double>(r.cache_bytes)) : "-",
               judged ? psnr_text(median_psnr(r)) : "-", judged ? psnr_text(worst_psnr(r)) : "-",
               judged ? figure(median_ssim(r)) : "-", r.ratio_to_flat > 0 ? figure(r.ratio_to_flat) : "-"});
  }
  return table.text();
}

nlohmann::ordered_json bench_json(const std::vector<BenchResult>& results) {
  auto rows = nlohmann::ordered_json::array();
  for (const BenchResult& r : results) {
    nlohmann::ordered_json row;
    row["name"] = r.row.name;
    row["plugin"] = r.row.plugin;
    row["schedule"] = schedule_name(r.row);
    row["policy"] = policy_text(r.row.policy);
    row["coding"] = to_json(r.row.coding);
    row["step_ms"] = r.step_ms;
    row["exposed_ms"] = r.exposed_ms;
    row["bytes_slow"] = r.bytes_slow;
    row["cache_bytes"] = r.cache_bytes;
    row["psnr_db"] = r.quality.empty() ? std::nan("") : median_psnr(r);  // equal, or not judged: null
    row["ssim"] = r.quality.empty() ? std::nan("") : median_ssim(r);
    row["ratio_to_flat"] = r.ratio_to_flat > 0 ? r.ratio_to_flat : std::nan("");
    row["guidance_mode"] = r.row.guidance_mode ? to_string(*r.row.guidance_mode) : "auto";
    row["head_groups"] = r.row.head_groups;
    row["step_ms_low"] = r.step_ms_low;
    row["step_ms_high"] = r.step_ms_high;
    row["compute_ms"] = r.compute_ms;
    row["codec_ms"] = r.codec_ms;
    row["reused_steps"] = r.reused_steps;
    row["guarded"] = r.guarded;
    row["image_seconds"] = r.image_seconds;
    row["bytes_fast"] = r.bytes_fast;
    row["bytes_by_level"] = r.level_bytes;
    row["active_fraction"] = r.active;
    row["oldest_row"] = r.oldest_row;
    row["threads"] = r.threads;
    row["psnr_db_worst"] = r.quality.empty() ? std::nan("") : worst_psnr(r);
    row["images"] = r.quality.size();
    row["rows_by_age"] = r.rows_by_age;
    row["judged"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < r.quality.size(); ++i) {
      row["judged"].push_back({{"seed", r.images[i].seed},
                               {"class", r.images[i].label},
                               {"psnr_db", r.quality[i].psnr_db},
                               {"equal", r.quality[i].mse == 0},
                               {"ssim", r.quality[i].ssim}});
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace dit::tool
