// TAPA_TOPOLOGY: "RANKS TEXT". Names of files are left out: what lies on a disk is no input.
#include "topology/override.hpp"

#include <charconv>

#include "fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t blank = input.find(' ');
  int ranks = 0;
  if (blank == std::string_view::npos ||
      std::from_chars(input.data(), input.data() + blank, ranks).ec != std::errc{} || ranks < 1 ||
      ranks > 4096)
    return 0;
  const std::string text(input.substr(blank + 1));
  if (text.find_first_of(std::string_view("/\0", 2)) != std::string::npos ||
      text.find(".json") != std::string::npos)
    return 0;
  try {
    const tapa::Topology topology = tapa::override_topology(text, ranks);
    fuzz::require(topology.ranks == ranks, "as many ranks as the communicator");
    fuzz::require(topology.check().empty(), "the topology holds together: " + topology.check());
    if (tapa::looks_like_factors(text))
      fuzz::require(tapa::ranks_of(tapa::parse_factors(text)) == ranks, "factors make the ranks");
  } catch (const std::invalid_argument& error) {
    fuzz::require(std::string_view(error.what()).starts_with("TAPA_TOPOLOGY="),
                  "the error names the variable");
  }
  return 0;
}
