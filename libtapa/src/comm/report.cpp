#include "comm/report.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <mutex>
#include <tuple>

namespace tapa {

namespace {

// Calls before the first sample: what MPI and the library set up once is not compared.
constexpr std::uint64_t kUnsampled = 3;

/// Rows of communicators that have ended. Never destroyed: MPI may end after static objects do.
struct Kept {
  std::mutex mutex;
  std::vector<ReportRow> rows;
};

Kept& kept() {
  static auto* instance = new Kept;
  return *instance;
}

auto table_of(const ReportRow& row) {
  return std::tie(row.communicator, row.ranks);
}
auto place_in_table(const ReportRow& row) {
  return std::tie(row.function, row.size_class, row.plan);
}

void add(ReportRow& to, const ReportRow& row) {
  to.calls += row.calls;
  to.bytes += row.bytes;
  to.seconds += row.seconds;
  to.samples += row.samples;
  to.sampled.tapa += row.sampled.tapa;
  to.sampled.mpi += row.sampled.mpi;
}

std::string head_of(const ReportRow& row) {
  const std::string name = row.communicator.empty() ? "a communicator" : row.communicator;
  char line[160];
  std::snprintf(line, sizeof line, "tapa report: %s, %d ranks, as rank 0 saw it\n",
                name.substr(0, 64).c_str(), row.ranks);
  char titles[160];
  std::snprintf(titles, sizeof titles, "  %-24s %10s %9s %14s %10s %10s %10s %6s  %s\n", "function",
                "bytes/pair", "calls", "bytes sent", "mean us", "tapa us*", "mpi us*", "ratio*", "plan");
  return std::string(line) + titles;
}

std::string line_of(const ReportRow& row) {
  char line[200];
  const double calls = static_cast<double>(row.calls);
  int length = std::snprintf(line, sizeof line, "  %-24s %10zu %9llu %14llu %10.1f ", row.function.c_str(),
                             row.size_class, static_cast<unsigned long long>(row.calls),
                             static_cast<unsigned long long>(row.bytes), 1e6 * row.seconds / calls);
  const auto rest = sizeof line - static_cast<std::size_t>(length);
  if (row.samples == 0) {
    std::snprintf(line + length, rest, "%10s %10s %6s  ", "-", "-", "-");
  } else {
    const double samples = static_cast<double>(row.samples);
    std::snprintf(line + length, rest, "%10.1f %10.1f %6.2f  ", 1e6 * row.sampled.tapa / samples,
                  1e6 * row.sampled.mpi / samples, row.sampled.mpi / std::max(row.sampled.tapa, 1e-9));
  }
  return line + row.plan + "\n";
}

}  // namespace

std::size_t Report::find(std::string_view function, std::size_t size_class, std::string_view plan) const {
  const auto row = std::ranges::find_if(rows_, [&](const ReportRow& r) {
    return r.size_class == size_class && r.function == function && r.plan == plan;
  });
  return static_cast<std::size_t>(row - rows_.begin());
}

void Report::count(std::string_view function, std::size_t bytes_per_pair, std::string_view plan,
                   std::size_t bytes, double seconds, const std::optional<Sample>& sample) {
  const std::size_t size_class = std::bit_floor(bytes_per_pair);
  const std::size_t at = find(function, size_class, plan);
  if (at == rows_.size()) {
    ReportRow fresh;
    fresh.function = function;
    fresh.size_class = size_class;
    fresh.plan = plan;
    rows_.push_back(std::move(fresh));
  }
  ReportRow& row = rows_[at];
  ++row.calls;
  row.bytes += bytes;
  row.seconds += seconds;
  if (sample) {
    ++row.samples;
    row.sampled.tapa += sample->tapa;
    row.sampled.mpi += sample->mpi;
  }
}

bool Report::sample_due(std::string_view function, std::size_t bytes_per_pair, std::string_view plan) const {
  const std::size_t at = find(function, std::bit_floor(bytes_per_pair), plan);
  return at < rows_.size() && rows_[at].calls >= kUnsampled && std::has_single_bit(rows_[at].calls + 1);
}

std::vector<ReportRow> Report::rows(const std::string& communicator, int rank, int ranks) const {
  auto result = rows_;
  for (ReportRow& row : result) {
    row.communicator = communicator;
    row.rank = rank;
    row.ranks = ranks;
  }
  return result;
}

void keep_rows(std::vector<ReportRow> rows) {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  // Programs that make and free communicators again and again must not fill the memory: alike rows become
  // one.
  for (ReportRow& row : rows) {
    const auto same = std::ranges::find_if(k.rows, [&](const ReportRow& r) {
      return r.rank == row.rank && table_of(r) == table_of(row) && place_in_table(r) == place_in_table(row);
    });
    if (same != k.rows.end()) {
      add(*same, row);
    } else {
      k.rows.push_back(std::move(row));
    }
  }
}

std::vector<ReportRow> kept_rows() {
  Kept& k = kept();
  const std::lock_guard lock(k.mutex);
  return k.rows;
}

std::string format_report(const std::vector<ReportRow>& rows) {
  std::vector<ReportRow> merged;
  for (const ReportRow& row : rows) {
    if (row.rank != 0) continue;
    const auto same = std::ranges::find_if(merged, [&](const ReportRow& r) {
      return table_of(r) == table_of(row) && place_in_table(r) == place_in_table(row);
    });
    if (same != merged.end()) {
      add(*same, row);
    } else {
      merged.push_back(row);
    }
  }
  std::ranges::stable_sort(merged, [](const ReportRow& a, const ReportRow& b) {
    return std::tuple(-a.ranks, table_of(a), place_in_table(a)) <
           std::tuple(-b.ranks, table_of(b), place_in_table(b));
  });
  std::string text;
  const ReportRow* table = nullptr;
  bool sampled = false;
  for (const ReportRow& row : merged) {
    if (table == nullptr || table_of(*table) != table_of(row)) text += head_of(row);
    table = &row;
    text += line_of(row);
    sampled = sampled || row.samples > 0;
  }
  if (sampled)
    text +=
        "  * in the calls beside which MPI's own all-to-all was run (the 4th, 8th, 16th, ... of a kind)\n";
  return text;
}

}  // namespace tapa
