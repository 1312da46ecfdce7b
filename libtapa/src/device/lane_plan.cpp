#include "device/lane_plan.hpp"

#include <algorithm>
#include <map>

namespace tapa::device {

namespace {

/// Rows begin at multiples of it, so that they are copied in the widest units.
constexpr std::size_t kRowGrain = 512;
/// A block is not cut into rows shorter than this: messages would be many and small.
constexpr std::size_t kLeastRow = std::size_t{1} << 20;

std::size_t round_to_rows(std::size_t bytes) {
  return (bytes + kRowGrain - 1) / kRowGrain * kRowGrain;
}

std::size_t as_size(int number) {
  return static_cast<std::size_t>(number);
}

/// The bytes of all blocks that travel in one chunk.
struct Chunk {
  std::size_t begin;  ///< in each block
  std::size_t bytes;
  int slot;
};

/// Makes the steps of one rank for equal blocks.
class Steps {
 public:
  Steps(const Partition& nodes, const LanePlan& plan, std::size_t bytes, std::size_t row)
      : nodes_(nodes), plan_(plan), bytes_(bytes) {
    for (std::size_t begin = 0; begin < bytes; begin += row) {
      const int slot = static_cast<int>(chunks_.size()) % kLaneSlots;
      chunks_.push_back({begin, std::min(row, bytes - begin), slot});
    }
    row_ = row;
  }

  std::vector<LaneStep> make() {
    if (nodes_.groups() > 1) {
      for (std::size_t c = 0; c < chunks_.size(); ++c) {
        if (c >= kLaneSlots) finish(chunks_[c - kLaneSlots]);
        gather(chunks_[c]);
        start(chunks_[c]);
      }
    }
    exchange_in_node();
    if (nodes_.groups() > 1) {
      for (std::size_t c = chunks_.size() - std::min<std::size_t>(chunks_.size(), kLaneSlots);
           c < chunks_.size(); ++c) {
        finish(chunks_[c]);
      }
    }
    return std::move(steps_);
  }

 private:
  [[nodiscard]] std::size_t slot_at(Area area, int slot) const {
    return as_size(slot) * (plan_.rows_of(area) / kLaneSlots) * row_;
  }

  void gather(const Chunk& chunk) {
    if (!plan_.gathers()) return;
    const std::size_t bytes = chunk.bytes;
    steps_.emplace_back(RowCopy{{{Area::send, chunk.begin}, bytes_, RowOrder::packed},
                                {{Area::packed, 0}, bytes, RowOrder::as_is},
                                plan_.packed.size(),
                                bytes});
    const Place to = plan_.gathers_in_order() ? Place{Area::outgoing, slot_at(Area::outgoing, chunk.slot)}
                                              : Place{Area::gathered, 0};
    NodeExchange exchange;
    std::size_t packed = 0;
    const std::size_t each = plan_.served.size() * bytes;
    for (std::size_t member = 0; member < plan_.node_ranks; ++member) {
      exchange.blocks.push_back({{Area::packed, packed * bytes},
                                 {to.area, to.at + member * each},
                                 plan_.rows_to[member] * bytes,
                                 each});
      packed += plan_.rows_to[member];
    }
    steps_.emplace_back(std::move(exchange));
    if (plan_.gathers_in_order()) return;
    steps_.emplace_back(
        RowCopy{{to, bytes, RowOrder::transposed},
                {{Area::outgoing, slot_at(Area::outgoing, chunk.slot)}, bytes, RowOrder::as_is},
                plan_.transposed.size(),
                bytes});
  }

  void start(const Chunk& chunk) {
    Start start{chunk.slot, {}, {}};
    const std::size_t bytes = plan_.node_ranks * chunk.bytes;
    std::size_t at = slot_at(Area::outgoing, chunk.slot);
    for (const int peer : plan_.served) {
      const Place place = plan_.gathers() ? Place{Area::outgoing, at}
                                          : Place{Area::send, as_size(peer) * bytes_ + chunk.begin};
      start.sends.push_back({peer, place, bytes});
      at += bytes;
    }
    for (const LanePlan::Source& source : plan_.sources) {
      const std::size_t landing = slot_at(Area::landing, chunk.slot) + source.row * chunk.bytes;
      const Place place = source.rows > 1
                              ? Place{Area::landing, landing}
                              : Place{Area::receive, as_size(source.relay) * bytes_ + chunk.begin};
      start.receives.push_back({source.relay, place, source.rows * chunk.bytes});
    }
    steps_.emplace_back(std::move(start));
  }

  void finish(const Chunk& chunk) {
    steps_.emplace_back(Wait{chunk.slot});
    if (plan_.landed.empty()) return;
    steps_.emplace_back(
        RowCopy{{{Area::landing, slot_at(Area::landing, chunk.slot)}, chunk.bytes, RowOrder::as_is},
                {{Area::receive, chunk.begin}, bytes_, RowOrder::landed},
                plan_.landed.size(),
                chunk.bytes});
  }

  void exchange_in_node() {
    NodeExchange exchange;
    for (const int member : nodes_.members_of(nodes_.group_of(plan_.rank))) {
      const std::size_t at = as_size(member) * bytes_;
      exchange.blocks.push_back({{Area::send, at}, {Area::receive, at}, bytes_, bytes_});
    }
    steps_.emplace_back(std::move(exchange));
  }

  const Partition& nodes_;
  const LanePlan& plan_;
  std::size_t bytes_;
  std::size_t row_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<LaneStep> steps_;
};

}  // namespace

Partition nodes_of_names(const std::vector<std::string>& names) {
  Partition nodes;
  std::map<std::string, int> number;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto [found, fresh] = number.emplace(names[rank], nodes.groups());
    if (fresh) nodes.members.emplace_back();
    std::vector<int>& members = nodes.members[as_size(found->second)];
    nodes.group.push_back(found->second);
    nodes.index.push_back(static_cast<int>(members.size()));
    members.push_back(static_cast<int>(rank));
  }
  return nodes;
}

std::size_t LanePlan::rows_of(Area area) const {
  const std::size_t messages = gathers() ? served.size() * node_ranks : 0;
  switch (area) {
    case Area::packed:
      return gathers() ? packed.size() : 0;
    case Area::gathered:
      return gathers_in_order() ? 0 : messages;
    case Area::outgoing:
      return messages * kLaneSlots;
    case Area::landing:
      return landed.size() * kLaneSlots;
    case Area::send:
    case Area::receive:
    case Area::pieces_out:
    case Area::pieces_in:
      break;
  }
  return 0;
}

LanePlan plan_lanes(const Partition& nodes, int rank) {
  LanePlan plan;
  plan.rank = rank;
  const int node = nodes.group_of(rank);
  const std::vector<int>& members = nodes.members_of(node);
  plan.node_ranks = members.size();
  const auto ranks = static_cast<int>(nodes.group.size());
  for (const int relay : members) {
    const std::size_t before = plan.packed.size();
    for (int dst = 0; dst < ranks; ++dst) {
      if (nodes.group_of(dst) == node || relay_of(nodes, node, dst) != relay) continue;
      plan.packed.push_back(dst);
      if (relay == rank) plan.served.push_back(dst);
    }
    plan.rows_to.push_back(plan.packed.size() - before);
  }
  for (int other = 0; other < nodes.groups(); ++other) {
    if (other == node) continue;
    const std::size_t rows = nodes.members_of(other).size();
    plan.sources.push_back({relay_of(nodes, other, rank), other, rows, plan.landed.size()});
    if (rows == 1) continue;
    plan.landed.insert(plan.landed.end(), nodes.members_of(other).begin(), nodes.members_of(other).end());
  }
  for (std::size_t message = 0; message < plan.served.size(); ++message) {
    for (std::size_t source = 0; source < plan.node_ranks; ++source) {
      plan.transposed.push_back(source * plan.served.size() + message);
    }
  }
  return plan;
}

std::size_t lane_row_bytes(std::size_t bytes, int ranks, std::size_t chunk) {
  const std::size_t most = std::max(kRowGrain, chunk / as_size(ranks) / kRowGrain * kRowGrain);
  const std::size_t quarter = round_to_rows((bytes + 3) / 4);
  return std::max<std::size_t>(1, std::min(bytes, std::min(most, std::max(quarter, kLeastRow))));
}

std::vector<LaneStep> alltoall_steps(const Partition& nodes, const LanePlan& plan, std::size_t bytes,
                                     std::size_t row) {
  return Steps(nodes, plan, bytes, row).make();
}

std::vector<LaneStep> alltoallv_steps(const Partition& nodes, int rank, const BlockCounts& counts) {
  const int node = nodes.group_of(rank);
  Start start;
  NodeExchange exchange;
  const auto ranks = static_cast<int>(nodes.group.size());
  for (int peer = 0; peer < ranks; ++peer) {
    const std::size_t p = as_size(peer);
    const Place send{Area::send, counts.send_bytes[p] == 0 ? 0 : counts.send_displs[p]};
    const Place receive{Area::receive, counts.receive_bytes[p] == 0 ? 0 : counts.receive_displs[p]};
    if (nodes.group_of(peer) == node) {
      exchange.blocks.push_back({send, receive, counts.send_bytes[p], counts.receive_bytes[p]});
      continue;
    }
    if (counts.send_bytes[p] != 0) start.sends.push_back({peer, send, counts.send_bytes[p]});
    if (counts.receive_bytes[p] != 0) start.receives.push_back({peer, receive, counts.receive_bytes[p]});
  }
  std::vector<LaneStep> steps;
  const bool messages = !start.sends.empty() || !start.receives.empty();
  if (messages) steps.emplace_back(std::move(start));
  // Alone on its node a rank has nobody to meet there.
  const NodeExchange::Block& first = exchange.blocks.front();
  if (exchange.blocks.size() > 1 || first.send_bytes != 0) steps.emplace_back(std::move(exchange));
  if (messages) steps.emplace_back(Wait{0});
  return steps;
}

}  // namespace tapa::device
