// What processes tell each other of their machine: a record each line, a rank each record. Refused in words,
// or written as they were read, and merged to a topology that holds together.
#include "topology/record.hpp"

#include "fuzz.hpp"
#include "topology/detect.hpp"
#include "topology/topology_file.hpp"

namespace {

constexpr std::size_t kMostRanks = 16;

std::vector<tapa::Record> records_of(std::string_view text) {
  std::vector<tapa::Record> records;
  while (!text.empty() && records.size() < kMostRanks) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    records.push_back(tapa::parse_record(text.substr(0, end), "record"));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return records;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::vector<tapa::Record> records = records_of(fuzz::text_of(data, size));
    for (const tapa::Record& record : records) {
      const std::string text = tapa::to_json(record);
      fuzz::require(tapa::to_json(tapa::parse_record(text, "written")) == text,
                    "written as it was read: " + text);
    }
    const tapa::Topology topology = tapa::merge_records(records);
    const std::string wrong = topology.check();
    fuzz::require(wrong.empty(), "what records are merged to holds together: " + wrong);
    const std::string text = tapa::write_topology(topology);
    fuzz::require(tapa::write_topology(tapa::read_topology(text, "written")) == text,
                  "a topology is written as it was read");
  } catch (const std::invalid_argument& error) {
    fuzz::require_words(error);
  }
  return 0;
}
