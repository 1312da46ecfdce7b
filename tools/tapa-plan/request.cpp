#include "request.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "topology/input_file.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"

namespace tapa::plan_tool {

namespace {

constexpr std::size_t kMostCountsBytes = std::size_t{1} << 30;  // of a matrix of a few thousand ranks

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument(reason);
}

/// Deals the ranks of a consecutive topology to its nodes in turn.
Topology dealt(const Topology& topology) {
  std::vector<std::vector<int>> nodes(static_cast<std::size_t>(topology.nodes()));
  for (int r = 0; r < topology.ranks; ++r) nodes[static_cast<std::size_t>(topology.node_of(r))].push_back(r);
  std::vector<int> members;
  for (std::size_t turn = 0; members.size() < static_cast<std::size_t>(topology.ranks); ++turn) {
    for (const std::vector<int>& node : nodes) {
      if (turn < node.size()) members.push_back(node[turn]);
    }
  }
  return topology.subset(members);
}

Placement placement_of(const std::string& word) {
  if (word == "block") return Placement::block;
  if (word == "round-robin") return Placement::round_robin;
  refuse("--placement is \"" + word + "\", expected block or round-robin");
}

void require_few(int ranks) {
  if (ranks <= most_ranks) return;
  refuse("has " + std::to_string(ranks) + " ranks, expected at most " + std::to_string(most_ranks) +
         ": the steps of every rank are made");
}

Topology factors_topology(const Words& words, Placement placement) {
  const std::vector<int> factors = parse_factors(words.topology);
  const int ranks = ranks_of(factors);
  if (words.ranks != 0 && words.ranks != ranks) {
    refuse("has " + std::to_string(ranks) + " ranks, but --ranks is " + std::to_string(words.ranks));
  }
  require_few(ranks);
  const Topology topology = make_uniform_topology(factors);
  return placement == Placement::block ? topology : dealt(topology);
}

std::size_t read_size(std::string_view word, const std::string& where) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  std::string_view suffix(end, static_cast<std::size_t>(word.data() + word.size() - end));
  constexpr std::string_view kSuffixes = "KMG";
  int shift = 0;
  if (suffix.size() == 1 && kSuffixes.find(suffix[0]) != std::string_view::npos) {
    shift = 10 * (static_cast<int>(kSuffixes.find(suffix[0])) + 1);
    suffix = {};
  }
  if (error != std::errc{} || !suffix.empty() || value > (most_bytes >> shift)) {
    refuse(where + "\"" + std::string(word) + "\", expected a number of bytes up to " +
           std::to_string(most_bytes >> 30) + "G, such as 4096, 64K or 1M");
  }
  return value << shift;
}

std::vector<std::string_view> words_of(std::string_view line, std::string_view separators) {
  std::vector<std::string_view> words;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(separators), line.size()));
    if (line.empty()) return words;
    const std::size_t end = std::min(line.find_first_of(separators), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

}  // namespace

Topology read_topology_words(const Words& words) {
  const Placement placement = placement_of(words.placement);
  if (words.ranks < 0) refuse("--ranks is " + std::to_string(words.ranks) + ", expected at least 1");
  Topology topology;
  try {
    topology = looks_like_factors(words.topology) ? factors_topology(words, placement)
                                                  : load_topology(words.topology, words.ranks, placement);
    require_few(topology.ranks);
  } catch (const std::invalid_argument& error) {
    refuse("--topology " + words.topology + ": " + error.what());
  }
  return topology;
}

std::vector<std::size_t> read_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    sizes.push_back(read_size(std::string_view(text).substr(begin, end - begin), "--bytes is "));
    begin = end + 1;
  }
  return sizes;
}

Counts read_counts(const std::string& file, int ranks) {
  std::istringstream in(
      read_input_file(file, kMostCountsBytes, "--counts " + file, "a line of numbers for each rank"));
  const auto columns = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> matrix;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string where = "--counts " + file + ", line " + std::to_string(number) + ": ";
    const auto words = words_of(std::string_view(line).substr(0, line.find('#')), " \t\r,");
    if (words.empty()) continue;
    if (words.size() != columns) {
      refuse(where + std::to_string(words.size()) + " numbers, expected one for each of the " +
             std::to_string(ranks) + " ranks");
    }
    if (matrix.size() == columns * columns)
      refuse(where + "a row too many, expected " + std::to_string(ranks));
    for (std::string_view word : words) matrix.push_back(read_size(word, where));
  }
  if (matrix.size() != columns * columns) {
    refuse("--counts " + file + ": " + std::to_string(matrix.size() / columns) +
           " rows, expected one for each of the " + std::to_string(ranks) + " ranks");
  }
  return Counts::matrix(ranks, std::move(matrix));
}

std::optional<Choice> read_choice(const Words& words) {
  std::string algorithm = words.algorithm;
  std::string settings;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) settings += (settings.empty() ? ":" : ",") + std::string(key) + "=" + value;
  };
  std::string split = words.split;
  std::replace(split.begin(), split.end(), ',', '+');
  const bool bruck_by_radix = !words.radix.empty() && algorithm != "bruck" && !split.empty();
  if (bruck_by_radix && !words.slow.empty())
    refuse("--radix and --slow both say how groups exchange, expected one");
  add("split", split);
  add("window", words.window);
  add("leaders", words.leaders);
  add("local", words.local);
  add("order", words.order);
  add("fast", words.fast);
  add("slow", bruck_by_radix ? "bruck(" + words.radix + ")" : words.slow);
  if (!bruck_by_radix) add("radix", words.radix);
  add("pipeline", words.pipeline);
  if (!words.plan.empty()) {
    if (!algorithm.empty() || !settings.empty()) {
      refuse("--plan is the whole choice, expected no --algorithm, --split or other setting with it");
    }
    return parse_choice(words.plan);
  }
  if (algorithm.empty() && settings.empty()) return std::nullopt;
  if (algorithm.empty()) {
    algorithm = !words.leaders.empty() || !words.local.empty() ? "leaders"
                : !split.empty()                               ? "tapa"
                : !words.radix.empty()                         ? "bruck"
                                                               : "linear";
  }
  return parse_choice(algorithm + settings);
}

}  // namespace tapa::plan_tool
