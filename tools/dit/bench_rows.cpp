#include "bench_rows.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "run_words.hpp"

namespace dit::tool {

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

using Parts = std::vector<std::string>;

std::string joined(Parts::const_iterator begin, Parts::const_iterator end) {
  std::string text;
  for (auto part = begin; part != end; ++part) text += (part == begin ? "" : "/") + *part;
  return text;
}

bool is_schedule(const std::string& word) {
  return word == "auto" || word == "flat" || word == "v-first" || word == "pipelined";
}

bool is_mode(const std::string& word) {
  return word == "auto" || word == "batched" || word == "sequential" || word == "parallel";
}

/// Whether a policy's first word only begins a path.
bool begins_path(const std::string& word) {
  try {
    static_cast<void>(parse_policy(word));
    return false;
  } catch (const std::exception&) {
    return word.empty() || std::filesystem::is_directory(word);
  }
}

/// The end of the policy that begins at `begin`: one word, or a path up to the row's end or to what may
/// follow.
Parts::const_iterator end_of_policy(Parts::const_iterator begin, Parts::const_iterator end) {
  if (!begins_path(*begin)) return begin + 1;
  if (end[-1].ends_with(".json")) return end;
  if (end - begin > 2 && is_mode(end[-2])) return end - 2;
  return end - begin > 1 && is_mode(end[-1]) ? end - 1 : end;
}

int parse_groups(const std::string& groups, const std::string& row) {
  int number = 0;
  const auto [end, error] = std::from_chars(groups.data(), groups.data() + groups.size(), number);
  if (error != std::errc() || end != groups.data() + groups.size() || number < 1 || number > 1024) {
    throw std::invalid_argument("--rows: head groups \"" + groups + "\" of " + row +
                                ", expected a whole number from 1 to 1024");
  }
  return number;
}

/// Plugin and policy may be paths: the plugin ends where a schedule's name follows.
BenchRow parse_row(const std::string& text) {
  const std::size_t equals = text.find('=');
  const Parts parts = split(text.substr(equals + 1), '/');
  BenchRow row;
  row.name = text.substr(0, equals);
  const auto refuse = [&] {
    throw std::invalid_argument("--rows: \"" + text +
                                "\", expected name=plugin/schedule/policy[/guidance-mode[/head-groups]]");
  };
  if (row.name.empty() || parts.size() < 3) refuse();
  auto schedule = std::find_if(parts.begin() + 1, parts.end(), is_schedule);
  if (schedule == parts.end()) schedule = parts.begin() + 1;  // refused below, by its name
  row.plugin = joined(parts.begin(), schedule);
  const auto policy = schedule + 1;
  if (row.plugin.empty() || policy == parts.end()) refuse();
  row.schedule = parse_schedule_or_auto(*schedule);
  auto next = end_of_policy(policy, parts.end());
  if (parts.end() - next > 2) refuse();
  row.policy = parse_policy(joined(policy, next));
  if (next != parts.end()) row.guidance_mode = parse_mode_or_auto(*next++);
  if (next != parts.end()) row.head_groups = parse_groups(*next, row.name);
  return row;
}

BenchRow named_row(const std::string& name, const std::vector<BenchRow>& defaults) {
  std::string known;
  for (const BenchRow& row : defaults) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + row.name;
  }
  throw std::invalid_argument("--rows: \"" + name + "\" is unknown, expected one of " + known +
                              ", or name=plugin/schedule/policy");
}

/// The value in the middle of what `get` says of each run.
template <typename Get>
double median_of(const std::vector<BenchRun>& runs, Get get) {
  std::vector<double> values;
  for (const BenchRun& run : runs) values.push_back(get(run.summary));
  return median(values);
}

template <typename Get>
std::vector<double> of_images(const BenchResult& result, Get get) {
  std::vector<double> values;
  for (const Quality& quality : result.quality) values.push_back(get(quality));
  return values;
}

}  // namespace

std::vector<BenchRow> parse_rows(const std::string& text, const std::vector<BenchRow>& defaults) {
  std::vector<BenchRow> rows;
  for (const std::string& part : split(text, ';')) {
    if (part.empty()) continue;
    rows.push_back(part.find('=') == std::string::npos ? named_row(part, defaults) : parse_row(part));
    const auto same = [&](const BenchRow& row) { return row.name == rows.back().name; };
    if (std::count_if(rows.begin(), rows.end(), same) > 1) {
      throw std::invalid_argument("--rows: two rows are named \"" + rows.back().name +
                                  "\", expected different names");
    }
  }
  if (rows.empty()) throw std::invalid_argument("--rows: no row, expected name=plugin/schedule/policy;...");
  return rows;
}

std::vector<BenchRow> default_rows(const std::string& plugin, bool has_tapa) {
  PolicyChoice paper;
  paper.v_major.emplace();
  const std::string best = has_tapa ? "tapa" : plugin;
  std::vector<BenchRow> rows = {{"flat", plugin == "tapa" ? "mpi" : plugin, Schedule::flat, {}, {}}};
  if (has_tapa) rows.push_back({"+TAPA", best, Schedule::flat, {}, {}});
  rows.push_back({"+V-First", best, Schedule::v_first, {}, {}});
  rows.push_back({"pipelined", best, Schedule::pipelined, {}, {}});
  rows.push_back({"+V-Major", best, std::nullopt, paper, {}});
  return rows;
}

namespace {

/// Of V-Major, whose settings have commas too.
bool is_setting(const std::string& word) {
  return word.find('=') != std::string::npos && word.find(':') > word.find('=');
}

/// "POLICY" or "POLICY/GUIDANCE-MODE".
BenchRow policy_row(const std::string& name, const std::string& plugin) {
  BenchRow row{name, plugin, Schedule::v_first, {}, {}};
  std::string policy = name;
  for (const GuidanceMode mode : {GuidanceMode::batched, GuidanceMode::sequential, GuidanceMode::parallel}) {
    const std::string end = std::string("/") + to_string(mode);
    if (name.size() > end.size() && name.ends_with(end)) {
      row.guidance_mode = mode;
      policy = name.substr(0, name.size() - end.size());
    }
  }
  row.policy = parse_policy(policy);
  return row;
}

}  // namespace

std::vector<BenchRow> policy_rows(const std::string& policies, const std::string& plugin, bool has_tapa) {
  const std::string best = has_tapa ? "tapa" : plugin;
  std::vector<BenchRow> rows = {
      {"flat", plugin == "tapa" ? "mpi" : plugin, Schedule::flat, parse_policy("bf16"), {}}};
  std::vector<std::string> names;
  for (const std::string& name : split(policies, ',')) {
    if (!names.empty() && names.back().starts_with("v-major:") && is_setting(name)) {  // one of several
      names.back() += "," + name;
    } else if (name == "rivals") {
      names.insert(names.end(),
                   {"bf16", "fp8", "paper", "displaced", "bf16+step-cache:0.15", "bf16/parallel"});
    } else if (!name.empty()) {
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    const auto same = [&](const BenchRow& row) { return row.name == name; };
    if (std::none_of(rows.begin(), rows.end(), same)) rows.push_back(policy_row(name, best));
  }
  return rows;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

BenchResult conclude(const BenchRow& row, const std::vector<BenchRun>& runs) {
  BenchResult result;
  result.row = row;
  const auto step_ms = [](const RunSummary& s) {
    return s.seconds * 1e3 / static_cast<double>(s.step_ms.size());
  };
  result.step_ms = median_of(runs, step_ms);
  result.step_ms_low = std::numeric_limits<double>::infinity();
  for (const BenchRun& run : runs) {
    result.step_ms_low = std::min(result.step_ms_low, step_ms(run.summary));
    result.step_ms_high = std::max(result.step_ms_high, step_ms(run.summary));
    result.oldest_row = std::max(result.oldest_row, run.summary.oldest_row);
  }
  result.compute_ms = median_of(runs, [](const RunSummary& s) { return mean(s.compute_ms); });
  result.codec_ms = median_of(runs, [](const RunSummary& s) { return s.codec_ms; });
  result.exposed_ms = median_of(runs, [](const RunSummary& s) { return mean(s.exposed_ms); });
  result.image_seconds = median_of(runs, [](const RunSummary& s) { return s.seconds; });
  result.bytes_slow = median_of(runs, [](const RunSummary& s) { return s.slow_bytes; });
  result.bytes_fast = median_of(runs, [](const RunSummary& s) { return s.fast_bytes; });
  result.active = median_of(runs, [](const RunSummary& s) { return mean(s.active); });
  result.level_bytes = runs.front().level_bytes;
  result.rows_by_age = runs.front().rows_by_age;
  result.reused_steps = runs.front().summary.reused_steps;
  result.guarded = runs.front().summary.guarded;
  result.cache_bytes = runs.front().summary.cache_bytes;
  result.threads = runs.front().summary.threads;
  return result;
}

double ratio(const std::vector<BenchRun>& flat, const std::vector<BenchRun>& row) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(flat.size(), row.size()); ++i) {
    ratios.push_back(flat[i].summary.seconds / row[i].summary.seconds);
  }
  return median(ratios);
}

double median_psnr(const BenchResult& result) {
  return median(of_images(result, [](const Quality& q) { return q.psnr_db; }));
}

double worst_psnr(const BenchResult& result) {
  const auto values = of_images(result, [](const Quality& q) { return q.psnr_db; });
  return values.empty() ? 0 : *std::min_element(values.begin(), values.end());
}

double median_ssim(const BenchResult& result) {
  return median(of_images(result, [](const Quality& q) { return q.ssim; }));
}

}  // namespace dit::tool
