// Topology files: refused in words, or read to a topology that holds together and is written as it was read.
#include "topology/topology_file.hpp"

#include "fuzz.hpp"

namespace {

void check_topology(const tapa::Topology& topology) {
  const std::string wrong = topology.check();
  fuzz::require(wrong.empty(), "a topology that was read holds together: " + wrong);
  const std::string text = tapa::write_topology(topology);
  fuzz::require(tapa::write_topology(tapa::read_topology(text, "written")) == text, "written as it was read");
}

void place(const tapa::Machine& machine, int ranks, tapa::Placement placement) {
  try {
    const tapa::Topology topology = tapa::instantiate(machine, ranks, placement);
    fuzz::require(topology.ranks == ranks, "as many ranks as were asked for");
    check_topology(topology);
  } catch (const std::invalid_argument& error) {
    fuzz::require_words(error);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto read = tapa::read_topology_file(fuzz::text_of(data, size), "file");
    if (const auto* topology = std::get_if<tapa::Topology>(&read)) {
      if (topology->ranks <= 4096) check_topology(*topology);
      return 0;
    }
    const auto& machine = std::get<tapa::Machine>(read);
    for (const int ranks : {1, 3, 24})
      for (const auto placement : {tapa::Placement::block, tapa::Placement::round_robin})
        place(machine, ranks, placement);
  } catch (const std::invalid_argument& error) {
    fuzz::require_words(error);
  }
  return 0;
}
