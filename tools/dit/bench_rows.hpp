/// @file
/// What `dit bench` compares: rows of plugin, schedule and policy, and what they measured.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "coding.hpp"
#include "engine/engine.hpp"
#include "profile/quality.hpp"
#include "report.hpp"
#include "run_words.hpp"

namespace dit::tool {

struct BenchRow {
  std::string name;
  std::string plugin;
  std::optional<Schedule> schedule;  ///< empty: the fastest exact one of the warm-up
  PolicyChoice policy;
  std::optional<GuidanceMode> guidance_mode;  ///< empty: sequential when pipelined, else batched
  int head_groups = 1;
  std::vector<CodingVerdict> coding =
      {};  ///< of a preset on the job's links; where it does not pay it is off
};

/// "name=plugin/schedule/policy[/guidance-mode[/head-groups]]", rows with a semicolon between; a name alone
/// takes that row of `defaults`. Plugin and policy may be paths. Throws std::invalid_argument.
[[nodiscard]] std::vector<BenchRow> parse_rows(const std::string& text,
                                               const std::vector<BenchRow>& defaults);
/// The ablation: flat, +TAPA, +V-First, pipelined, +V-Major; without a plugin `tapa` all by `plugin`.
[[nodiscard]] std::vector<BenchRow> default_rows(const std::string& plugin, bool has_tapa);

/// A row for each policy of a comma-separated list, after the baseline: flat, as `plugin` sends 16-bit
/// numbers. A policy may be followed by a guidance mode, "bf16/parallel". "rivals" stands for what others do,
/// all in 16 bits or less: bf16, fp8, paper, displaced, bf16+step-cache:0.15, bf16/parallel.
[[nodiscard]] std::vector<BenchRow> policy_rows(const std::string& policies, const std::string& plugin,
                                                bool has_tapa);

/// One image of one row.
struct BenchRun {
  int image = 0;
  RunSummary summary;
  std::map<std::string, double> level_bytes;  ///< a step, all ranks, by level
  std::vector<std::uint64_t> rows_by_age;     ///< rank 0's, after the last step
};

/// What image it is.
struct BenchImage {
  std::uint64_t seed = 0;
  int label = 0;
};

/// All that is known of a row in the end. Times are medians over the runs of a run's mean step.
struct BenchResult {
  BenchRow row;
  double step_ms = 0, step_ms_low = 0, step_ms_high = 0;
  double compute_ms = 0, exposed_ms = 0;
  double codec_ms = 0;
  int reused_steps = 0, guarded = 0;  ///< of the first run
  double image_seconds = 0;
  double bytes_slow = 0, bytes_fast = 0;
  std::map<std::string, double> level_bytes;
  std::uint64_t cache_bytes = 0;
  int oldest_row = 0;
  double active = 1;  ///< mean fraction of rows on slow links
  std::uint64_t threads = 1;
  std::vector<std::uint64_t> rows_by_age;  ///< of the first run
  std::vector<Quality> quality;            ///< of each image, to the exact one
  std::vector<BenchImage> images;          ///< of each in `quality`
  double ratio_to_flat = 0;                ///< 0: there is no flat row
};
[[nodiscard]] double mean(const std::vector<double>& values);
/// Fills all but quality and ratio.
[[nodiscard]] BenchResult conclude(const BenchRow& row, const std::vector<BenchRun>& runs);
/// Median over pairs of runs that followed each other, so that a drift of the machine falls out.
[[nodiscard]] double ratio(const std::vector<BenchRun>& flat, const std::vector<BenchRun>& row);
/// The median image's and the worst one's.
[[nodiscard]] double median_psnr(const BenchResult& result);
[[nodiscard]] double worst_psnr(const BenchResult& result);
[[nodiscard]] double median_ssim(const BenchResult& result);

[[nodiscard]] std::string bench_table(const std::vector<BenchResult>& results);
[[nodiscard]] nlohmann::ordered_json bench_json(const std::vector<BenchResult>& results);
/// Stacked bars of computing and exposed exchange, as SVG.
[[nodiscard]] std::string bench_svg(const std::vector<BenchResult>& results, const std::string& title);

}  // namespace dit::tool
