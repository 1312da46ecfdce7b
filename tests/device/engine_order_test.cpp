// Every chunk once and in order, and nobody waits for ever: ranks whose two ways go on by themselves, ranks
// that do all of their work one after the other as it was put on, or the way out as far as it comes without
// the other.
#include "device/engine_order.hpp"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>

namespace tapa::device {
namespace {

using Counts = std::vector<std::vector<Word>>;  ///< chunks of each message, by sender and receiver

enum class Queues { two, one, out_first };

/// Ranks of one host, whose flags of slots are all that they know of each other.
class Host {
 public:
  Host(int size, Word slots, Queues queues, std::uint32_t seed)
      : size_(size), slots_(slots), queues_(queues), random_(seed), ranks_(static_cast<std::size_t>(size)) {}

  void add_exchange(const Counts& counts) {
    for (int rank = 0; rank < size_; ++rank) add(rank, counts);
  }
  /// Whether all came to their ends.
  bool run() {
    for (;;) {
      bool left = false, moved = false;
      std::vector<std::pair<int, bool>> ways;
      for (int rank = 0; rank < size_; ++rank)
        for (const bool out : {true, false}) ways.emplace_back(rank, out);
      std::shuffle(ways.begin(), ways.end(), random_);
      for (const auto& [rank, out] : ways) {
        left = left || !way(rank, out).empty();
        moved = advance(rank, out) || moved;
      }
      if (!left) return true;
      if (!moved) return false;
    }
  }

 private:
  struct Step {
    enum class Kind { take, fill, drain, empty, mark, wait } kind;
    int from = 0, to = 0;
    Word number = 0;  ///< of the chunk, or of marks before a wait
    int mark = 0;
  };
  struct Rank {
    std::deque<Step> out, in;
    std::map<int, Word> marks, passed;  ///< put on the way in, and behind it
  };

  std::deque<Step>& way(int rank, bool out) {
    Rank& one = ranks_[static_cast<std::size_t>(rank)];
    return out || queues_ == Queues::one ? one.out : one.in;
  }

  /// As CopyEngines::move(): what is told of a chunk comes with the way's next operation.
  void add(int rank, const Counts& counts) {
    std::vector<EngineMessage> messages;
    std::vector<std::pair<int, int>> ends;
    for (int peer = 0; peer < size_; ++peer) {
      for (const bool sends : {true, false}) {
        const int from = sends ? rank : peer, to = sends ? peer : rank;
        const Word chunks = counts[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
        if (chunks == 0 || peer == rank) continue;
        messages.push_back({(to - from + size_) % size_, sends, chunks});
        ends.emplace_back(from, to);
      }
    }
    std::array<std::optional<Step>, 2> untold;  // of the way in, and of the way out
    const auto flush = [&](bool out) {
      if (untold[out]) way(rank, out).push_back(*std::exchange(untold[out], std::nullopt));
    };
    std::vector<Word> done(messages.size());
    int distance = 0;
    const bool captured = queues_ != Queues::one;
    Rank& own = ranks_[static_cast<std::size_t>(rank)];
    for (const EngineOp& op : engine_order(messages, slots_, captured)) {
      if (op.kind == EngineOp::Kind::chunk) {
        const auto index = static_cast<std::size_t>(op.index);
        const auto [from, to] = ends[index];
        EXPECT_EQ(op.step, done[index]++);
        EXPECT_GE(messages[index].distance, distance);
        distance = messages[index].distance;
        const bool out = messages[index].sends;
        flush(out);
        way(rank, out).push_back({out ? Step::Kind::take : Step::Kind::drain, from, to, op.step});
        untold[out] = {out ? Step::Kind::fill : Step::Kind::empty, from, to, op.step};
      } else if (op.kind == EngineOp::Kind::tell) {
        flush(true);
      } else {
        EXPECT_LT(op.index, engine_marks(size_, slots_));
        const bool waits = op.kind == EngineOp::Kind::wait;
        flush(waits);
        Word& marks = own.marks[op.index];
        if (!waits) ++marks;
        way(rank, waits)
            .push_back({waits ? Step::Kind::wait : Step::Kind::mark, rank, rank, marks, op.index});
      }
    }
    flush(true);
    flush(false);
    for (std::size_t index = 0; index < messages.size(); ++index)
      EXPECT_EQ(done[index], messages[index].chunks);
  }

  bool advance(int rank, bool out) {
    std::deque<Step>& steps = way(rank, out);
    if (steps.empty() || !(out || may_go_in(rank)) || !take(rank, steps.front())) return false;
    steps.pop_front();
    return true;
  }

  /// Whether the way out of a rank that does one thing after the other has come to where it waits for this
  /// one.
  bool may_go_in(int rank) {
    if (queues_ != Queues::out_first) return true;
    Rank& one = ranks_[static_cast<std::size_t>(rank)];
    if (one.out.empty()) return true;
    const Step& next = one.out.front();
    return next.kind == Step::Kind::wait && one.passed[next.mark] < next.number;
  }

  bool take(int rank, const Step& step) {
    Rank& one = ranks_[static_cast<std::size_t>(rank)];
    const auto slot = std::make_tuple(step.from, step.to, step.number % slots_);
    const auto full = full_.find(slot);
    switch (step.kind) {
      case Step::Kind::mark:
        return ++one.passed[step.mark] != 0;
      case Step::Kind::wait:
        return one.passed[step.mark] >= step.number;
      case Step::Kind::take:
        return full == full_.end();
      case Step::Kind::fill:
        return full_.emplace(slot, step.number).second;
      case Step::Kind::drain:
        if (full == full_.end()) return false;
        EXPECT_EQ(full->second, step.number);
        return true;
      case Step::Kind::empty:
        full_.erase(full);
        return true;
    }
    return false;
  }

  int size_;
  Word slots_;
  Queues queues_;
  std::mt19937 random_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<int, int, Word>, Word> full_;
};

class EngineOrder : public ::testing::TestWithParam<Queues> {};

TEST_P(EngineOrder, NobodyWaitsForEver) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const int size = 2 + round % 6;
    const Word slots = round % 3 == 0 ? 8 : round % 3 == 1 ? 4 : 2;
    Host host(size, slots, GetParam(), static_cast<std::uint32_t>(round));
    for (int exchange = 0; exchange < 3; ++exchange) {
      Counts counts(static_cast<std::size_t>(size),
                    std::vector<Word>(static_cast<std::size_t>(size), random() % 30));
      for (auto& row : counts)
        for (Word& chunks : row)
          if (round % 4 != 0) chunks = random() % 3 == 0 ? 0 : random() % 30;
      host.add_exchange(counts);
    }
    ASSERT_TRUE(host.run()) << size << " ranks, " << slots << " slots, round " << round;
  }
}
INSTANTIATE_TEST_SUITE_P(Queues, EngineOrder, ::testing::Values(Queues::two, Queues::one, Queues::out_first),
                         [](const auto& one) {
                           return one.param == Queues::two   ? "Two"
                                  : one.param == Queues::one ? "One"
                                                             : "OutFirst";
                         });

TEST(EngineOrderOps, ThePeersOneBehindTheOther) {
  using Kind = EngineOp::Kind;
  const std::vector<EngineMessage> messages{{2, false, 1}, {1, true, 2}, {2, true, 2}, {1, false, 3}};
  const std::vector<EngineOp> told{{Kind::chunk, 1, 0}, {Kind::tell, 1, 0},  {Kind::chunk, 3, 0},
                                   {Kind::chunk, 1, 1}, {Kind::tell, 1, 1},  {Kind::chunk, 3, 1},
                                   {Kind::chunk, 3, 2}, {Kind::chunk, 2, 0}, {Kind::tell, 2, 0},
                                   {Kind::chunk, 0, 0}, {Kind::chunk, 2, 1}, {Kind::tell, 2, 1}};
  EXPECT_EQ(engine_order(messages, 2, false), told);
  const std::vector<EngineOp> recorded{
      {Kind::wait, 0, 0}, {Kind::chunk, 1, 0}, {Kind::chunk, 3, 0}, {Kind::mark, 0, 0},  //
      {Kind::wait, 1, 0}, {Kind::chunk, 1, 1}, {Kind::chunk, 3, 1}, {Kind::mark, 1, 0},  //
      {Kind::wait, 0, 0}, {Kind::chunk, 3, 2}, {Kind::mark, 0, 0},                       //
      {Kind::wait, 2, 0}, {Kind::chunk, 2, 0}, {Kind::chunk, 0, 0}, {Kind::mark, 2, 0},  //
      {Kind::wait, 3, 0}, {Kind::chunk, 2, 1}, {Kind::mark, 3, 0}};
  EXPECT_EQ(engine_order(messages, 2, true), recorded);
  EXPECT_TRUE(engine_order({}, 4, true).empty());
}

}  // namespace
}  // namespace tapa::device
