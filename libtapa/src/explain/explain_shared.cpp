#include "explain/explain_shared.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "explain/explain_format.hpp"

namespace tapa {

namespace {

using Json = nlohmann::ordered_json;

/// Blocks of other ranks that a rank copies, or that it shows to them.
Traffic blocks_of(const Counts& counts, int rank, bool shown) {
  Traffic traffic;
  for (int other = 0; other < counts.ranks(); ++other) {
    const std::size_t bytes = shown ? counts.bytes(rank, other) : counts.bytes(other, rank);
    if (other != rank && bytes > 0) traffic.add(bytes);
  }
  return traffic;
}

std::string words(const Traffic& traffic) {
  return std::to_string(traffic.messages) + " blocks, " + bytes_words(traffic.bytes);
}

Json blocks_json(const Traffic& traffic) {
  return {{"blocks", traffic.messages}, {"bytes", traffic.bytes}};
}

}  // namespace

SharedTraffic shared_traffic(const Counts& counts, const Topology& topology) {
  SharedTraffic traffic;
  traffic.levels.resize(topology.levels.size());
  for (int reader = 0; reader < topology.ranks; ++reader) {
    for (int owner = 0; owner < topology.ranks; ++owner) {
      const std::size_t bytes = counts.bytes(owner, reader);
      if (owner == reader || bytes == 0) continue;
      traffic.read.add(bytes);
      traffic.levels[static_cast<std::size_t>(topology.level_of(owner, reader))].add(bytes);
    }
    const Traffic own = blocks_of(counts, reader, false);
    traffic.busiest.messages = std::max(traffic.busiest.messages, own.messages);
    traffic.busiest.bytes = std::max(traffic.busiest.bytes, own.bytes);
  }
  return traffic;
}

std::string explain_shared_text(const Counts& counts, const Topology& topology, double seconds) {
  const SharedTraffic traffic = shared_traffic(counts, topology);
  std::string text =
      "plan       memory\nmachine    " + topology.name + ", " + std::to_string(topology.ranks) +
      " ranks\npredicted  " + seconds_words(seconds) +
      "\nmessages   none: ranks show their blocks in memory that all share, and copy their own "
      "out of it\ncopies     " +
      words(traffic.read) + "; on the busiest rank " + words(traffic.busiest) + "\n\n";
  Table levels({"level", "blocks", "bytes"});
  for (std::size_t l = 0; l < topology.levels.size(); ++l) {
    levels.add({topology.levels[l].name, std::to_string(traffic.levels[l].messages),
                bytes_words(traffic.levels[l].bytes)});
  }
  return text + levels.text();
}

std::string explain_shared_rank(const Counts& counts, int rank) {
  return "rank " + std::to_string(rank) + ": no steps; shows " + words(blocks_of(counts, rank, true)) +
         " to others, copies " + words(blocks_of(counts, rank, false)) + " of theirs\n";
}

std::string explain_shared_json(const Counts& counts, const Topology& topology, double seconds) {
  const SharedTraffic traffic = shared_traffic(counts, topology);
  Json json = {{"schema", "tapa-plan/1"},
               {"choice", "memory"},
               {"topology", topology.name},
               {"ranks", topology.ranks},
               {"seconds", seconds},
               {"copy_seconds", nullptr},
               {"messages", 0},
               {"bytes", 0},
               {"scratch_bytes", 0},
               {"levels", Json::array()},
               {"nics", Json::array()},
               {"phases", Json::array()}};
  json["shared_memory"] = blocks_json(traffic.read);
  json["shared_memory"]["busiest"] = blocks_json(traffic.busiest);
  json["shared_memory"]["levels"] = Json::array();
  for (std::size_t l = 0; l < topology.levels.size(); ++l) {
    Json level = {{"name", topology.levels[l].name}};
    level.update(blocks_json(traffic.levels[l]));
    json["shared_memory"]["levels"].push_back(level);
  }
  return json.dump(2) + "\n";
}

}  // namespace tapa
