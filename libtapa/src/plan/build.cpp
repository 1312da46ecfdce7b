#include "plan/build.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <tuple>
#include <utility>

namespace tapa {

namespace {

/// A message of this rank: all blocks that make the same hop in the same stage and lot.
struct MessageKey {
  int stage = -1;  // -1: no such hop
  int distance = 0;
  int lot = 0;
  int peer = -1;
  auto operator<=>(const MessageKey&) const = default;
};

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

/// A block that starts at, ends at or passes through this rank.
struct Touch {
  int src = 0;
  int dst = 0;
  std::size_t bytes = 0;
  MessageKey in;
  MessageKey out;
  std::size_t scratch = kNowhere;  // where it lies between two hops, or beside the others of its message
};

struct Message {
  MessageKey key;
  bool send = false;
  std::uint32_t first = 0;  // range of the sorted touches
  std::uint32_t count = 0;
  bool whole = false;  // lies in one piece of scratch, with blocks that start or end here
};

class Builder {
 public:
  Builder(const Routes& routes, const Counts& counts, int rank) : routes_(routes), rank_(rank) {
    plan_.rank = rank;
    plan_.ranks = routes.ranks();
    plan_.channels = static_cast<int>(routes.stages().size()) * routes.lots();
    collect(counts);
    outgoing_ = sorted(&Touch::out);
    cut_into_messages(outgoing_, &Touch::out, true);
    incoming_ = sorted(&Touch::in);
    cut_into_messages(incoming_, &Touch::in, false);
    place();
    order_messages();
    for (std::uint32_t m : order_) add_message(m);
    add_self_copy(counts);
  }

  RankPlan take() { return std::move(plan_); }

 private:
  void collect(const Counts& counts) {
    std::vector<Hop> hops;
    routes_.for_blocks_near(rank_, [&](int src, int dst) {
      if (src == dst) return;
      hops.clear();
      routes_.route(src, dst, hops);
      Touch touch{src, dst, 0, {}, {}};
      for (const Hop& hop : hops) {
        if (hop.to == rank_) touch.in = {hop.stage, hop.distance, hop.lot, hop.from};
        if (hop.from == rank_) touch.out = {hop.stage, hop.distance, hop.lot, hop.to};
      }
      if (touch.in.stage < 0 && touch.out.stage < 0) return;
      touch.bytes = counts.bytes(src, dst);
      if (touch.bytes > 0) touches_.push_back(touch);
    });
  }

  /// Sorts touch indices by message, then by (dst, src): the order of blocks inside a message at both ends.
  std::vector<std::uint32_t> sorted(MessageKey Touch::*side) {
    std::vector<std::uint32_t> index;
    for (std::uint32_t i = 0; i < touches_.size(); ++i) {
      if ((touches_[i].*side).stage >= 0) index.push_back(i);
    }
    std::sort(index.begin(), index.end(), [&](std::uint32_t a, std::uint32_t b) {
      const Touch& x = touches_[a];
      const Touch& y = touches_[b];
      return std::tie(x.*side, x.dst, x.src) < std::tie(y.*side, y.dst, y.src);
    });
    return index;
  }

  void cut_into_messages(const std::vector<std::uint32_t>& index, MessageKey Touch::*side, bool send) {
    for (std::uint32_t i = 0; i < index.size(); ++i) {
      const MessageKey& key = touches_[index[i]].*side;
      if (messages_.empty() || messages_.back().send != send || messages_.back().key != key) {
        messages_.push_back({key, send, i, 0});
      }
      ++messages_.back().count;
    }
  }

  [[nodiscard]] const std::vector<std::uint32_t>& blocks_of(const Message& m) const {
    return m.send ? outgoing_ : incoming_;
  }

  /// The blocks of a message, in order.
  template <typename Visit>
  void for_each(const Message& m, const Visit& visit) {
    for (std::uint32_t i = 0; i < m.count; ++i) visit(touches_[blocks_of(m)[m.first + i]]);
  }

  [[nodiscard]] bool relayed(const Touch& t) const { return t.src != rank_ && t.dst != rank_; }

  void put(Touch& touch) {
    touch.scratch = plan_.scratch_bytes;
    plan_.scratch_bytes += touch.bytes;
  }

  /// A message through a NIC has to lie in one piece of memory. When some of its blocks lie in scratch
  /// anyhow, to copy those there that start or end here is less than to gather or scatter them all. What
  /// comes through a NIC and leaves through one lies as it leaves.
  void place() {
    for (Message& m : messages_) {
      if (!m.send || !routes_.leaves_node(rank_, m.key.peer)) continue;
      for_each(m, [&](const Touch& t) { m.whole = m.whole || relayed(t); });
      if (m.whole) for_each(m, [&](Touch& t) { put(t); });
    }
    for (Message& m : messages_) {
      if (m.send || !routes_.leaves_node(rank_, m.key.peer)) continue;
      bool placed = false;
      for_each(m, [&](const Touch& t) {
        m.whole = m.whole || relayed(t);
        placed = placed || t.scratch != kNowhere;
      });
      m.whole = m.whole && !placed;
      if (m.whole) for_each(m, [&](Touch& t) { put(t); });
    }
    for (const std::uint32_t i : outgoing_) {
      if (relayed(touches_[i]) && touches_[i].scratch == kNowhere) put(touches_[i]);
    }
  }

  /// Whether some blocks of the message are copied to or from their place in it.
  bool copies(const Message& m) {
    bool any = false;
    if (m.whole) for_each(m, [&](const Touch& t) { any = any || !relayed(t); });
    return any;
  }

  [[nodiscard]] bool lockstep(const Message& m) const {
    return routes_.stages()[static_cast<std::size_t>(m.key.stage)].lockstep;
  }

  /// Receives that wait for nothing come first, so that no message arrives unexpected; then stage by stage.
  void order_messages() {
    order_.resize(messages_.size());
    std::iota(order_.begin(), order_.end(), 0U);
    const auto rank_of = [&](const Message& m) {
      const bool early = !m.send && !lockstep(m);
      return std::make_tuple(early ? 0 : 1, m.key.stage, m.key.distance, m.send, m.key.lot, m.key.peer);
    };
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return rank_of(messages_[a]) < rank_of(messages_[b]);
    });
    step_of_.assign(messages_.size(), 0);
    std::uint32_t position = 0;
    for (const std::uint32_t m : order_) {  // copies come before what is sent and after what is received
      const bool copied = copies(messages_[m]);
      position += messages_[m].send && copied ? 1 : 0;
      step_of_[m] = position;
      position += messages_[m].send || !copied ? 1 : 2;
    }
    arrival_of_.assign(touches_.size(), 0);
    for (std::uint32_t m = 0; m < messages_.size(); ++m) {
      if (messages_[m].send) continue;
      for (std::uint32_t i = 0; i < messages_[m].count; ++i) {
        arrival_of_[incoming_[messages_[m].first + i]] = step_of_[m];
      }
    }
  }

  void add_message(std::uint32_t index) {
    const Message& m = messages_[index];
    const bool copied = copies(m);
    if (m.send && copied) add_copy(m, {});
    Step step;
    step.kind = m.send ? StepKind::send : StepKind::recv;
    step.phase = static_cast<std::uint16_t>(m.key.stage);
    step.peer = m.key.peer;
    step.channel = m.key.stage * routes_.lots() + m.key.lot;
    const Range segments = add_segments(m, step.bytes);
    (m.send ? step.from : step.to) = segments;
    add_dependencies(m, step, copied);
    plan_.steps.push_back(step);
    if (!m.send && copied) add_copy(m, std::vector{step_of_[index]});
  }

  /// Blocks that start here go to their place in a message, or blocks that end here leave theirs.
  void add_copy(const Message& m, const std::vector<std::uint32_t>& needs) {
    Step step;
    step.phase = static_cast<std::uint16_t>(m.key.stage);
    step.peer = rank_;
    Range user{static_cast<std::uint32_t>(plan_.segments.size()), 0};
    for_each(m, [&](const Touch& t) {
      if (relayed(t)) return;
      step.bytes += t.bytes;
      add_segment(
          user, m.send ? Segment{Buffer::send, t.dst, 0, t.bytes} : Segment{Buffer::recv, t.src, 0, t.bytes});
    });
    Range scratch{static_cast<std::uint32_t>(plan_.segments.size()), 0};
    for_each(m, [&](const Touch& t) {
      if (!relayed(t)) add_segment(scratch, {Buffer::scratch, 0, t.scratch, t.bytes});
    });
    step.from = m.send ? user : scratch;
    step.to = m.send ? scratch : user;
    set_dependencies(step, needs);
    plan_.steps.push_back(step);
  }

  void set_dependencies(Step& step, const std::vector<std::uint32_t>& needs) {
    step.deps = {static_cast<std::uint32_t>(plan_.deps.size()), static_cast<std::uint32_t>(needs.size())};
    plan_.deps.insert(plan_.deps.end(), needs.begin(), needs.end());
  }

  Range add_segments(const Message& m, std::size_t& bytes) {
    Range range{static_cast<std::uint32_t>(plan_.segments.size()), 0};
    for_each(m, [&](const Touch& t) {
      bytes += t.bytes;
      if (t.scratch != kNowhere) {
        add_segment(range, {Buffer::scratch, 0, t.scratch, t.bytes});
      } else if (m.send) {
        add_segment(range, {Buffer::send, t.dst, 0, t.bytes});
      } else {
        add_segment(range, {Buffer::recv, t.src, 0, t.bytes});
      }
    });
    return range;
  }

  void add_segment(Range& range, const Segment& segment) {
    if (range.count > 0 && segment.buffer == Buffer::scratch) {
      Segment& last = plan_.segments.back();
      if (last.buffer == Buffer::scratch && last.offset + last.bytes == segment.offset) {
        last.bytes += segment.bytes;
        return;
      }
    }
    plan_.segments.push_back(segment);
    ++range.count;
  }

  void add_dependencies(const Message& m, Step& step, bool copied) {
    std::vector<std::uint32_t> needs;
    if (m.send && copied) needs.push_back(static_cast<std::uint32_t>(plan_.steps.size()) - 1);
    if (m.send) {
      for (std::uint32_t i = 0; i < m.count; ++i) {
        const std::uint32_t touch = outgoing_[m.first + i];
        if (touches_[touch].src != rank_) needs.push_back(arrival_of_[touch]);
      }
    }
    add_posting_order(m, needs);
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    set_dependencies(step, needs);
  }

  /// Pairwise: everything of the previous distance. Windowed linear: the send `window` places before.
  void add_posting_order(const Message& m, std::vector<std::uint32_t>& needs) {
    const auto here = static_cast<std::uint32_t>(plan_.steps.size());
    const StageOrder& order = routes_.stages()[static_cast<std::size_t>(m.key.stage)];
    if (order.lockstep) {
      if (m.key.stage != chain_stage_) {
        chain_stage_ = m.key.stage;
        before_.clear();
        current_.clear();
        chain_distance_ = m.key.distance;
      } else if (m.key.distance != chain_distance_) {
        before_ = std::exchange(current_, {});
        chain_distance_ = m.key.distance;
      }
      needs.insert(needs.end(), before_.begin(), before_.end());
      current_.push_back(here);
    } else if (m.send && order.window > 0) {
      if (m.key.stage != chain_stage_) {
        chain_stage_ = m.key.stage;
        current_.clear();
      }
      if (current_.size() >= static_cast<std::size_t>(order.window)) {
        needs.push_back(current_[current_.size() - static_cast<std::size_t>(order.window)]);
      }
      current_.push_back(here);
    }
  }

  /// Last, so that it is done while messages travel.
  void add_self_copy(const Counts& counts) {
    const std::size_t bytes = counts.bytes(rank_, rank_);
    if (bytes == 0) return;
    Step step;
    step.peer = rank_;
    step.bytes = bytes;
    step.from = {static_cast<std::uint32_t>(plan_.segments.size()), 1};
    step.to = {step.from.first + 1, 1};
    set_dependencies(step, {});
    plan_.segments.push_back({Buffer::send, rank_, 0, bytes});
    plan_.segments.push_back({Buffer::recv, rank_, 0, bytes});
    plan_.steps.push_back(step);
  }

  const Routes& routes_;
  int rank_;
  RankPlan plan_;
  std::vector<Touch> touches_;
  std::vector<std::uint32_t> outgoing_;  // touches by outgoing message
  std::vector<std::uint32_t> incoming_;  // touches by incoming message
  std::vector<Message> messages_;
  std::vector<std::uint32_t> order_;       // messages in step order
  std::vector<std::uint32_t> step_of_;     // message -> step
  std::vector<std::uint32_t> arrival_of_;  // touch -> step that receives it
  int chain_stage_ = -1;
  int chain_distance_ = 0;
  std::vector<std::uint32_t> before_;   // lockstep: steps of the previous distance
  std::vector<std::uint32_t> current_;  // lockstep: steps of this distance; window: sends so far
};

}  // namespace

RankPlan build_rank_plan(const Routes& routes, const Counts& counts, int rank) {
  return Builder(routes, counts, rank).take();
}

}  // namespace tapa
