#include "known.hpp"

#include <algorithm>
#include <stdexcept>

#include "topology/input_file.hpp"
#include "topology/json_reader.hpp"

namespace tapa::sim_tool {

namespace {

constexpr std::size_t kMostText = std::size_t{64} << 20;
constexpr std::size_t kMostRows = 4096;
constexpr int kMost = 1 << 30;

std::string read_text(const std::string& path) {
  return read_input_file(path, kMostText, "--known " + path, "a file of --json");
}

void check_machine(const JsonReader& file, const Report& report, const std::string& path) {
  const auto refuse = [&](const std::string& what, const std::string& is, const std::string& expected) {
    if (is != expected)
      throw std::invalid_argument("--known " + path + ": " + what + " " + is + ", expected " + expected);
  };
  refuse("machine", file.at("machine").text(), report.machine);
  refuse("ranks", std::to_string(file.at("ranks").integer(1, kMost)), std::to_string(report.ranks));
  refuse("nodes", std::to_string(file.at("nodes").integer(1, kMost)), std::to_string(report.nodes));
  refuse("placement", file.at("placement").text(), report.placement);
}

void add_times(const nlohmann::json& row, const std::string& key, const JsonReader& reader,
               std::map<std::string, double>& times) {
  const JsonReader all = reader.at(key);
  for (const auto& member : row.at(key).items())
    times[member.key()] = all.at(member.key()).positive("microseconds");
}

void add_row(const nlohmann::json& json, const JsonReader& reader, Report& report) {
  const auto bytes = static_cast<std::size_t>(reader.at("bytes").integer(1, kMost));
  const auto row =
      std::find_if(report.rows.begin(), report.rows.end(), [&](const Row& r) { return r.bytes == bytes; });
  if (row == report.rows.end()) return;
  add_times(json, "plans", reader, row->plans);
  add_times(json, "rivals", reader, row->rivals);
  row->checked = row->checked && reader.at("checked").boolean();
  const JsonReader nic_bytes = reader.at("busiest_nic_bytes");
  if (reader.at("choice").text(1024) == row->choice && nic_bytes.is_number())
    row->busiest_nic_bytes = json.at("busiest_nic_bytes").get<double>();
}

}  // namespace

void add_known_text(Report& report, const std::string& text, const std::string& path) {
  const nlohmann::json document = parse_json(text, path, kMostText);
  const JsonReader file(document, path);
  check_machine(file, report, path);
  const JsonReader rows = file.at("rows");
  for (std::size_t i = 0, n = rows.size(0, kMostRows, "rows"); i < n; ++i)
    add_row(document.at("rows").at(i), rows.at(i), report);
}

void add_known(Report& report, const std::vector<std::string>& files) {
  for (const std::string& path : files) add_known_text(report, read_text(path), path);
}

}  // namespace tapa::sim_tool
