#include "run/staged_rows.hpp"

#include <algorithm>

namespace tapa {

namespace {

/// The runs of an element as rows: runs of one length at one distance are rows of one entry.
std::vector<DataRows> grouped(std::span<const DataRun> element) {
  std::vector<DataRows> groups;
  for (const DataRun& run : element) {
    if (run.bytes == 0) continue;
    if (!groups.empty()) {
      DataRows& last = groups.back();
      const auto from_first = static_cast<std::size_t>(run.first - last.first);
      if (last.rows == 1 && from_first == last.bytes) {
        last.bytes += run.bytes;
        last.pitch = last.bytes;
        continue;
      }
      if (run.bytes == last.bytes && (last.rows == 1 || from_first == last.rows * last.pitch)) {
        if (last.rows == 1) last.pitch = from_first;
        ++last.rows;
        continue;
      }
    }
    groups.push_back({run.first, run.bytes, 1, run.bytes});
  }
  return groups;
}

/// Elements of one group of rows that together are one again; none otherwise.
bool joined(const DataRows& group, std::ptrdiff_t extent, std::size_t count, DataRows& all) {
  if (extent <= 0) return false;
  const auto step = static_cast<std::size_t>(extent);
  all = group;
  if (step == group.bytes) {  // columns side by side
    all.bytes = group.bytes * count;
    return group.rows == 1 || all.bytes <= group.pitch;
  }
  if (group.rows == 1) {
    all.rows = count;
    all.pitch = step;
    return step >= group.bytes;
  }
  all.rows = group.rows * count;
  return step == group.rows * group.pitch;
}

}  // namespace

std::vector<DataRun> written_runs(std::span<const std::byte> zeros, std::span<const std::byte> ones,
                                  std::ptrdiff_t first) {
  std::vector<DataRun> runs;
  for (std::size_t at = 0; at < zeros.size();) {
    const std::size_t begin = at;
    while (at < zeros.size() && zeros[at] == ones[at]) ++at;
    if (at > begin) runs.push_back({first + static_cast<std::ptrdiff_t>(begin), at - begin});
    while (at < zeros.size() && zeros[at] != ones[at]) ++at;
  }
  return runs;
}

std::vector<DataRows> rows_of(std::span<const DataRun> element, std::ptrdiff_t extent, std::size_t count) {
  std::vector<DataRows> groups = grouped(element);
  if (groups.empty() || count == 0) return {};
  if (count == 1) return groups;
  DataRows all;
  if (groups.size() == 1 && joined(groups[0], extent, count, all)) return {all};
  std::vector<DataRows> rows;
  std::size_t runs = 0;
  for (const DataRows& group : groups) runs += group.rows;
  // One entry for each run of an element, or for each group of each element: whatever is fewer.
  if (extent > 0 && runs < groups.size() * count) {
    for (const DataRows& group : groups) {
      for (std::size_t row = 0; row < group.rows; ++row)
        rows.push_back({group.first + static_cast<std::ptrdiff_t>(row * group.pitch), group.bytes, count,
                        static_cast<std::size_t>(extent)});
    }
    const bool apart = std::ranges::all_of(rows, [](const DataRows& r) { return r.pitch >= r.bytes; });
    if (apart) return rows;  // a copy of rows wants that
    rows.clear();
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (DataRows group : groups) {
      group.first += extent * static_cast<std::ptrdiff_t>(i);
      rows.push_back(group);
    }
  }
  return rows;
}

}  // namespace tapa
