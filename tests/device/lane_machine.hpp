/// @file
/// Runs the steps of all ranks of an all-to-all between nodes in one thread, message by message, over memory
/// of the host. Says where ranks do not fit together. Data moves either as early or as late as it may, so
/// that a buffer that is used again too soon gives wrong bytes.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "device/lane_plan.hpp"

namespace tapa::device {

/// Which row of a side of a copy comes as number `row`.
inline std::size_t index_of(const LanePlan& plan, RowOrder order, std::size_t row) {
  switch (order) {
    case RowOrder::packed:
      return static_cast<std::size_t>(plan.packed.at(row));
    case RowOrder::landed:
      return static_cast<std::size_t>(plan.landed.at(row));
    case RowOrder::transposed:
      return plan.transposed.at(row);
    case RowOrder::as_is:
      break;
  }
  return row;
}

class LaneMachine {
 public:
  enum class Delivery { early, late };
  static constexpr std::size_t kBlock = 64;  ///< bytes between blocks of PieceCopy

  LaneMachine(const Partition& nodes, Delivery delivery) : nodes_(nodes), delivery_(delivery) {
    for (std::size_t rank = 0; rank < nodes.group.size(); ++rank) {
      ranks_.push_back(Rank{plan_lanes(nodes, static_cast<int>(rank)), {}, {}, 0, {}, {}});
    }
  }

  /// A rank's memory; of the areas that are not the caller's as much as `row` asks for.
  std::vector<char>& memory(int rank, Area area) { return at(rank).areas[static_cast<std::size_t>(area)]; }
  void provide_areas(int rank, std::size_t row) {
    for (const Area area : {Area::packed, Area::gathered, Area::outgoing, Area::landing}) {
      memory(rank, area).assign(at(rank).plan.rows_of(area) * row, 'x');
    }
  }
  [[nodiscard]] const LanePlan& plan(int rank) { return at(rank).plan; }

  /// Carries out the steps of all ranks. Throws std::runtime_error when they do not fit.
  void run(std::vector<std::vector<LaneStep>> steps) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].steps = std::move(steps[rank]);
      ranks_[rank].next = 0;
    }
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        while (step(static_cast<int>(rank))) moved = true;
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::string who = "rank " + std::to_string(rank);
      if (ranks_[rank].next != ranks_[rank].steps.size())
        throw std::runtime_error(who + " waits for ever at step " + std::to_string(ranks_[rank].next));
      for (const auto& [peer, line] : ranks_[rank].sent) {
        if (!line.empty()) throw std::runtime_error(who + " sent what nobody received");
      }
      for (const auto& [peer, line] : ranks_[rank].wanted) {
        if (!line.empty()) throw std::runtime_error(who + " waits for a message that nobody waited for");
      }
    }
  }

 private:
  struct Pending {
    Place place;
    std::size_t bytes;
    int slot;
  };
  struct Rank {
    LanePlan plan;
    std::vector<char> areas[8];
    std::vector<LaneStep> steps;
    std::size_t next;
    std::map<int, std::deque<Pending>> sent, wanted;  ///< of each peer, not delivered
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  char* find(int rank, Place place, std::size_t bytes) {
    std::vector<char>& area = memory(rank, place.area);
    if (place.at > area.size() || bytes > area.size() - place.at) {
      throw std::runtime_error("rank " + std::to_string(rank) + " leaves area " +
                               std::to_string(static_cast<int>(place.area)));
    }
    return area.data() + place.at;
  }

  bool step(int rank) {
    Rank& me = at(rank);
    if (me.next == me.steps.size()) return false;
    const LaneStep& step = me.steps[me.next];
    if (const auto* copy = std::get_if<RowCopy>(&step)) {
      copy_rows(rank, *copy);
    } else if (std::holds_alternative<NodeExchange>(step)) {
      return exchange_in_node(rank);
    } else if (const auto* start = std::get_if<Start>(&step)) {
      for (const Message& m : start->sends) me.sent[m.peer].push_back({m.place, m.bytes, start->slot});
      for (const Message& m : start->receives) me.wanted[m.peer].push_back({m.place, m.bytes, start->slot});
      if (delivery_ == Delivery::early) deliver_all();
    } else if (const auto* pieces = std::get_if<PieceCopy>(&step)) {
      copy_pieces(rank, *pieces);
    } else if (const auto* waits = std::get_if<Wait>(&step)) {
      if (!wait(rank, waits->slot)) return false;
    }
    ++me.next;
    return true;
  }

  void copy_rows(int rank, const RowCopy& copy) {
    const LanePlan& plan = at(rank).plan;
    for (std::size_t row = 0; row < copy.rows; ++row) {
      const auto place = [&](const RowCopy::Side& side) {
        return Place{side.place.area, side.place.at + index_of(plan, side.order, row) * side.pitch};
      };
      std::memcpy(find(rank, place(copy.to), copy.bytes), find(rank, place(copy.from), copy.bytes),
                  copy.bytes);
    }
  }

  /// Blocks lie one after the other, `kBlock` bytes apart.
  void copy_pieces(int rank, const PieceCopy& copy) {
    for (const PieceCopy::Piece& piece : copy.pieces) {
      const Place apart{copy.sends ? Area::send : Area::receive,
                        static_cast<std::size_t>(piece.peer) * kBlock + piece.begin};
      const Place to = copy.sends ? piece.together : apart;
      const Place from = copy.sends ? apart : piece.together;
      std::memcpy(find(rank, to, piece.bytes), find(rank, from, piece.bytes), piece.bytes);
    }
  }

  bool exchange_in_node(int rank) {
    const std::vector<int>& members = nodes_.members_of(nodes_.group_of(rank));
    for (const int member : members) {
      if (at(member).next == at(member).steps.size()) return false;
      if (!std::holds_alternative<NodeExchange>(at(member).steps[at(member).next])) return false;
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      for (std::size_t j = 0; j < members.size(); ++j) {
        const auto& from = std::get<NodeExchange>(at(members[i]).steps[at(members[i]).next]).blocks.at(j);
        const auto& to = std::get<NodeExchange>(at(members[j]).steps[at(members[j]).next]).blocks.at(i);
        if (from.send_bytes != to.receive_bytes) throw std::runtime_error("sizes differ in a node");
        if (from.send_bytes == 0) continue;  // may have no address
        std::memcpy(find(members[j], to.receive, to.receive_bytes),
                    find(members[i], from.send, from.send_bytes), from.send_bytes);
      }
    }
    for (const int member : members) ++at(member).next;
    return true;
  }

  /// Delivers the oldest message between two ranks, if both ends are there.
  bool deliver(int from, int to) {
    auto& sent = at(from).sent[to];
    auto& wanted = at(to).wanted[from];
    if (sent.empty() || wanted.empty()) return false;
    if (sent.front().bytes != wanted.front().bytes) throw std::runtime_error("sizes of a message differ");
    std::memcpy(find(to, wanted.front().place, wanted.front().bytes),
                find(from, sent.front().place, sent.front().bytes), sent.front().bytes);
    sent.pop_front();
    wanted.pop_front();
    return true;
  }
  void deliver_all() {
    for (std::size_t from = 0; from < ranks_.size(); ++from) {
      for (std::size_t to = 0; to < ranks_.size(); ++to) {
        while (deliver(static_cast<int>(from), static_cast<int>(to))) {
        }
      }
    }
  }

  /// Delivers what the slot waits for, and no more. False while a peer is behind.
  bool wait(int rank, int slot) {
    Rank& me = at(rank);
    const auto of_slot = [slot](const std::deque<Pending>& line) {
      return std::any_of(line.begin(), line.end(), [slot](const Pending& p) { return p.slot == slot; });
    };
    bool done = true;
    for (auto& [peer, line] : me.sent) {
      while (of_slot(line) && deliver(rank, peer)) {
      }
      done = done && !of_slot(line);
    }
    for (auto& [peer, line] : me.wanted) {
      while (of_slot(line) && deliver(peer, rank)) {
      }
      done = done && !of_slot(line);
    }
    return done;
  }

  const Partition& nodes_;
  Delivery delivery_;
  std::vector<Rank> ranks_;
};

}  // namespace tapa::device
