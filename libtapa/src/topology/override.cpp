#include "topology/override.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "topology/topology_file.hpp"

namespace tapa {

bool looks_like_factors(const std::string& text) {
  const bool only = text.find_first_not_of("0123456789x") == std::string::npos;
  return only && text.find_first_of("0123456789") != std::string::npos;
}

std::vector<int> parse_factors(const std::string& text) {
  std::vector<int> factors;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    int factor = 0;
    const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, factor);
    if (error != std::errc() || stop != text.data() + end || factor < 1 || factor > max_ranks) {
      throw std::invalid_argument("factor \"" + text.substr(begin, end - begin) +
                                  "\", expected an integer from 1 to " + std::to_string(max_ranks) +
                                  " (for example 2x2x3: groups, slow to fast)");
    }
    factors.push_back(factor);
    begin = end + 1;
  }
  if (factors.size() > static_cast<std::size_t>(max_levels)) {
    throw std::invalid_argument(std::to_string(factors.size()) + " factors, expected at most " +
                                std::to_string(max_levels));
  }
  return factors;
}

Topology override_topology(const std::string& text, int ranks) {
  const std::string variable = "TAPA_TOPOLOGY=" + text + ": ";
  try {
    if (text.empty())
      throw std::invalid_argument("is empty, expected factors (2x2x3), a machine or a file.json");
    Topology topology;
    if (looks_like_factors(text)) {
      const std::vector<int> factors = parse_factors(text);
      if (const int product = ranks_of(factors); product != ranks) {
        throw std::invalid_argument("the product is " + std::to_string(product) + ", expected the " +
                                    std::to_string(ranks) + " ranks of the communicator");
      }
      topology = make_uniform_topology(factors);
    } else {
      topology = load_topology(text, ranks);
    }
    topology.sources.insert(topology.sources.begin(), {"override", true, "TAPA_TOPOLOGY=" + text});
    return topology;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(variable + error.what());
  }
}

}  // namespace tapa
