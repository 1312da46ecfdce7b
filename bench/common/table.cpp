#include "table.hpp"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tapa::bench {

namespace {

// Widths of the OSU micro-benchmarks, which people's scripts rely on.
constexpr int size_width = 10;
constexpr int field_width = 18;
constexpr int count_width = 12;

std::string padded(const std::string& text, int width, bool left = false) {
  const std::size_t w = static_cast<std::size_t>(width);
  const std::string space(text.size() < w ? w - text.size() : 0, ' ');
  return left ? text + space : space + text;
}

std::string fixed(double value, int width, int digits = 2) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%*.*f", width, digits, value);
  return buffer;
}

std::string verdict(bool valid) {
  return padded(valid ? "Pass" : "Fail", field_width);
}

}  // namespace

std::string latency_header(const Columns& columns) {
  std::string line = padded("# Size", size_width, true) + padded("Avg Latency(us)", field_width);
  if (columns.full) {
    line += padded("Min Latency(us)", field_width) + padded("Max Latency(us)", field_width) +
            padded("Iterations", count_width);
  }
  line += columns.validation ? padded("Validation", field_width) : "";
  line += columns.nic_bound ? padded("NIC bound(us)", field_width) : "";
  return line + "\n";
}

std::string latency_line(const LatencyRow& row, const Columns& columns) {
  std::string line = padded(std::to_string(row.bytes), size_width, true) + fixed(row.average, field_width);
  if (columns.full) {
    line += fixed(row.min, field_width) + fixed(row.max, field_width) +
            padded(std::to_string(row.iterations), count_width);
  }
  line += columns.validation ? verdict(row.valid) : "";
  line += columns.nic_bound ? fixed(row.nic_bound, field_width) : "";
  return line + "\n";
}

std::string overlap_header(const Columns& columns) {
  std::string line = padded("# Size", size_width, true) + padded("Overall(us)", field_width) +
                     padded("Compute(us)", field_width);
  if (columns.full) {
    line += padded("Coll. Init(us)", field_width) + padded("MPI_Test(us)", field_width) +
            padded("MPI_Wait(us)", field_width);
  }
  line += padded("Pure Comm.(us)", field_width);
  if (columns.full) {
    line += padded("Min Comm.(us)", field_width) + padded("Max Comm.(us)", field_width);
  }
  line += padded("Overlap(%)", field_width);
  return line + (columns.validation ? padded("Validation", field_width) : "") + "\n";
}

std::string overlap_line(const OverlapRow& row, const Columns& columns) {
  std::string line = padded(std::to_string(row.bytes), size_width, true) + fixed(row.overall, field_width) +
                     fixed(row.compute, field_width);
  if (columns.full) {
    line += fixed(row.init, field_width) + fixed(row.test, field_width) + fixed(row.wait, field_width);
  }
  line += fixed(row.communication, field_width);
  if (columns.full) {
    line += fixed(row.min_communication, field_width) + fixed(row.max_communication, field_width);
  }
  line += fixed(row.overlap, field_width);
  return line + (columns.validation ? verdict(row.valid) : "") + "\n";
}

const Candidate& VersusRow::ours() const {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [](const auto& c) { return c.ours; });
  assert(found != candidates.end());
  return *found;
}

const Candidate& VersusRow::best_of_mpi() const {
  const auto least = [](const Candidate& a, const Candidate& b) {
    return a.ours != b.ours ? b.ours : a.time.median < b.time.median;
  };
  const auto best = std::ranges::min_element(candidates, least);
  assert(best != candidates.end() && !best->ours);
  return *best;
}

std::string versus_header(const Columns& columns) {
  const std::string overlap = columns.overlap ? padded("Overlap(%)", 12) : "";
  std::string line = padded("# Size", size_width, true) + padded("TAPA(us)", 14) + padded("+-(%)", 8) +
                     overlap + padded(columns.rival + "(us)", 14) + padded("+-(%)", 8) + overlap +
                     padded("Ratio", 8);
  line += columns.floor ? padded("Floor(us)", 14) : "";
  line += columns.nic_bound ? padded("NIC bound(us)", 16) : "";
  line += columns.validation ? padded("Validation", 12) : "";
  return line + "  " + padded(columns.rival + " algorithm", 16, true) + "Plan\n";
}

std::string versus_line(const VersusRow& row, const Columns& columns) {
  const Candidate& tapa = row.ours();
  const Candidate& mpi = row.best_of_mpi();
  const auto times = [&](const Candidate& c) {
    return fixed(c.time.median * 1e6, 14) + fixed(c.time.spread() * 100, 8, 1) +
           (columns.overlap ? fixed(c.overlap.value_or(0), 12, 1) : "");
  };
  std::string text =
      padded(std::to_string(row.bytes), size_width, true) + times(tapa) + times(mpi) + fixed(row.ratio(), 8);
  text += columns.floor ? fixed(row.floor.value_or(0) * 1e6, 14) : "";
  text += columns.nic_bound ? fixed(row.nic_bound.value_or(0) * 1e6, 16) : "";
  text += columns.validation ? padded(row.valid ? "Pass" : "Fail", 12) : "";
  text += "  " + padded(mpi.name, 16, true) + row.plan + "\n";
  for (const Candidate& c : row.candidates) {
    if (c.ours && &c != &tapa) {
      text += padded("#   plan", size_width, true) + times(c) + "  " + c.name + "\n";
    }
  }
  return text;
}

std::string versus_json(const std::string& benchmark, const Machine& machine,
                        const std::vector<VersusRow>& rows) {
  using nlohmann::json;
  json out;
  out["benchmark"] = benchmark;
  out["machine"] = {{"host", machine.host},
                    {"mpi", machine.mpi},
                    {"date", machine.date},
                    {"ranks", machine.ranks},
                    {"nodes", machine.nodes},
                    {"node_of", machine.node_of},
                    {"processors", machine.processors}};
  out["rows"] = json::array();
  for (const VersusRow& row : rows) {
    const Candidate& tapa = row.ours();
    const Candidate& mpi = row.best_of_mpi();
    json entry = {{"bytes", row.bytes},
                  {"tapa_us", tapa.time.median * 1e6},
                  {"mpi_us", mpi.time.median * 1e6},
                  {"ratio", row.ratio()},
                  {"plan", row.plan},
                  {"tapa_spread", tapa.time.spread()},
                  {"mpi_spread", mpi.time.spread()},
                  {"mpi_algorithm", mpi.name},
                  {"valid", row.valid}};
    if (row.nic_bound) {
      entry["nic_bound_us"] = *row.nic_bound * 1e6;
    }
    if (row.floor) {
      entry["floor_us"] = *row.floor * 1e6;
    }
    for (const Candidate& c : row.candidates) {
      json candidate = {{"name", c.name},
                        {"library", c.ours ? "tapa" : "mpi"},
                        {"median_us", c.time.median * 1e6},
                        {"low_us", c.time.low * 1e6},
                        {"high_us", c.time.high * 1e6},
                        {"min_us", c.time.min * 1e6},
                        {"iterations", c.time.count}};
      if (c.overlap) {
        candidate["overlap_percent"] = *c.overlap;
      }
      entry["candidates"].push_back(std::move(candidate));
    }
    out["rows"].push_back(std::move(entry));
  }
  return out.dump(1) + "\n";
}

}  // namespace tapa::bench
