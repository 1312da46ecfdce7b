// Runs real plans with real bytes: every rank's executor in one process, over a network of synchronous sends.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "local_network.hpp"
#include "plan/planner.hpp"
#include "run/executor.hpp"

namespace tapa {
namespace {

using testing::LocalNetwork;

/// One rank's user buffers; every block sits between guard bytes.
struct Blocks {
  static constexpr std::size_t kGuard = 16;
  std::vector<std::byte> memory;
  std::vector<std::byte*> at;
  std::vector<std::size_t> bytes;

  void lay_out(std::vector<std::size_t> sizes) {
    bytes = std::move(sizes);
    std::size_t total = kGuard;
    for (std::size_t n : bytes) total += n + kGuard;
    memory.assign(total, std::byte{0xEE});
    std::size_t offset = kGuard;
    for (std::size_t n : bytes) {
      at.push_back(memory.data() + offset);
      offset += n + kGuard;
    }
  }
  [[nodiscard]] bool guards_intact() const {
    std::vector<bool> in_block(memory.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t k = 0; k < bytes[i]; ++k)
        in_block[static_cast<std::size_t>(at[i] - memory.data()) + k] = true;
    }
    for (std::size_t k = 0; k < memory.size(); ++k) {
      if (!in_block[k] && memory[k] != std::byte{0xEE}) return false;
    }
    return true;
  }
};

std::byte pattern(int src, int dst, std::size_t k, int round) {
  return static_cast<std::byte>((src * 131 + dst * 31 + static_cast<int>(k) * 7 + round * 3) & 0xFF);
}

class Exchange {
 public:
  Exchange(const Topology& topology, const Counts& counts, const Choice& choice)
      : ranks_(topology.ranks),
        network_(topology.ranks),
        send_(static_cast<std::size_t>(ranks_)),
        recv_(static_cast<std::size_t>(ranks_)) {
    for (int r = 0; r < ranks_; ++r) {
      std::vector<std::size_t> out, in;
      for (int other = 0; other < ranks_; ++other) {
        out.push_back(counts.bytes(r, other));
        in.push_back(counts.bytes(other, r));
      }
      send_[static_cast<std::size_t>(r)].lay_out(out);
      recv_[static_cast<std::size_t>(r)].lay_out(in);
      executors_.push_back(std::make_unique<Executor>(
          std::make_shared<RankPlan>(plan_rank(topology, counts, choice, r)), network_.transport(r)));
    }
  }

  /// A rank that is `blind` takes no part. Returns the ranks whose run has failed.
  std::vector<int> run(int round, int blind = -1) {
    for (std::size_t r = 0; r < send_.size(); ++r) {
      for (std::size_t d = 0; d < send_.size(); ++d) {
        for (std::size_t k = 0; k < send_[r].bytes[d]; ++k) {
          send_[r].at[d][k] = pattern(static_cast<int>(r), static_cast<int>(d), k, round);
        }
      }
      if (static_cast<int>(r) == blind) {
        executors_[r]->start_blind(100);
        continue;
      }
      executors_[r]->bind({send_[r].at.data(), send_[r].at.size()}, recv_[r].at);
      executors_[r]->start(100);
    }
    std::vector<int> failed;
    // Every pass completes at least one step of a plan that can end.
    std::size_t passes = 1;
    for (const auto& e : executors_) passes += e->plan().steps.size();
    while (passes-- > 0) {
      bool all = true;
      for (std::size_t r = 0; r < executors_.size(); ++r) {
        try {
          all = executors_[r]->progress(false) && all;
        } catch (const TransportError&) {
          failed.push_back(static_cast<int>(r));
        }
      }
      if (all) return failed;
    }
    ADD_FAILURE() << "deadlock: " << pending() << " steps pending";
    return failed;
  }

  void expect_right(int round) const {
    for (std::size_t r = 0; r < recv_.size(); ++r) {
      for (std::size_t s = 0; s < recv_.size(); ++s) {
        for (std::size_t k = 0; k < recv_[r].bytes[s]; ++k) {
          ASSERT_EQ(recv_[r].at[s][k], pattern(static_cast<int>(s), static_cast<int>(r), k, round))
              << "rank " << r << " from " << s << " byte " << k;
        }
      }
      ASSERT_TRUE(recv_[r].guards_intact()) << "rank " << r;
      ASSERT_TRUE(send_[r].guards_intact()) << "rank " << r;
    }
    EXPECT_EQ(network_.unmatched(), 0U);
  }

 private:
  [[nodiscard]] std::size_t pending() const {
    std::size_t n = 0;
    for (const auto& e : executors_) n += e->waiting(1U << 20).size();
    return n;
  }

  int ranks_;
  LocalNetwork network_;
  std::vector<Blocks> send_, recv_;
  std::vector<std::unique_ptr<Executor>> executors_;
};

/// `sizes[g]` ranks in node g; placed in blocks or dealt out like cards.
Topology nodes(const std::vector<int>& sizes, bool round_robin) {
  std::vector<int> node;
  if (round_robin) {
    std::vector<int> left = sizes;
    for (bool any = true; any;) {
      any = false;
      for (std::size_t g = 0; g < left.size(); ++g) {
        if (left[g]-- > 0) node.push_back(static_cast<int>(g)), any = true;
      }
    }
  } else {
    for (std::size_t g = 0; g < sizes.size(); ++g)
      node.insert(node.end(), static_cast<std::size_t>(sizes[g]), static_cast<int>(g));
  }
  Topology t;
  t.name = "test";
  t.ranks = static_cast<int>(node.size());
  const int count = number_by_first_rank(node);
  Level node_level, world_level;
  node_level.name = "node";
  node_level.group = node;
  node_level.groups = count;
  world_level.name = "world";
  world_level.group.assign(node.size(), 0);
  world_level.groups = 1;
  t.levels = {node_level, world_level};
  t.nic_level = 1;
  return t;
}

std::vector<std::string> all_choices() {
  return {"linear",
          "linear:window=2",
          "pairwise",
          "bruck",
          "bruck:radix=3",
          "tapa:split=node",
          "tapa:split=node,order=slow-first",
          "tapa:split=node,slow=bruck(2)",
          "tapa:split=node,slow=pairwise,fast=pairwise",
          "tapa:split=node,fast=bruck(2),slow=bruck(3)",
          "tapa:split=node,pipeline=3",
          "tapa:split=node,order=slow-first,pipeline=2,slow=bruck(2)",
          "leaders:split=node",
          "leaders:split=node,leaders=2",
          "leaders:split=node,leaders=all",
          "leaders:split=node,local=leader",
          "leaders:split=node,leaders=2,slow=bruck(2),pipeline=2"};
}

class EveryAlgorithm : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryAlgorithm, DeliversUniformBlocks) {
  for (const auto& sizes :
       std::vector<std::vector<int>>{{1}, {2}, {1, 1}, {4, 4, 4}, {3, 5, 1}, {2, 2, 2, 2, 2}, {1, 6}, {7}}) {
    for (bool round_robin : {false, true}) {
      const Topology t = nodes(sizes, round_robin);
      SCOPED_TRACE(std::to_string(t.ranks) + " ranks, round-robin " + std::to_string(round_robin));
      const Choice choice = parse_choice(GetParam());
      Exchange exchange(t, Counts::uniform(t.ranks, 5), choice);
      for (int round = 0; round < 3; ++round) {
        EXPECT_TRUE(exchange.run(round).empty());
        exchange.expect_right(round);
      }
    }
  }
}

TEST_P(EveryAlgorithm, ARankThatTakesNoPartIsAnErrorOfAllAndHangsNobody) {
  for (const auto& sizes : std::vector<std::vector<int>>{{2}, {1, 1}, {4, 4, 4}, {3, 5, 1}, {7}}) {
    const Topology t = nodes(sizes, false);
    Exchange exchange(t, Counts::uniform(t.ranks, 5), parse_choice(GetParam()));
    for (int blind = 0; blind < t.ranks; ++blind) {
      std::vector<int> failed = exchange.run(blind, blind);
      std::ranges::sort(failed);
      std::vector<int> others;
      for (int r = 0; r < t.ranks; ++r)
        if (r != blind) others.push_back(r);
      EXPECT_EQ(failed, others) << t.ranks << " ranks without " << blind;
      EXPECT_TRUE(exchange.run(blind + 1).empty()) << "what follows works";
      exchange.expect_right(blind + 1);
    }
  }
}

TEST_P(EveryAlgorithm, DeliversRandomBlocksWithZeros) {
  std::mt19937 random(7);
  for (const auto& sizes : std::vector<std::vector<int>>{{2, 3}, {4, 4, 4}, {3, 1, 4, 2}}) {
    const Topology t = nodes(sizes, sizes.size() == 3);
    std::vector<std::size_t> matrix(static_cast<std::size_t>(t.ranks * t.ranks));
    for (auto& n : matrix) n = random() % 3 == 0 ? 0 : random() % 40;
    Exchange exchange(t, Counts::matrix(t.ranks, matrix), parse_choice(GetParam()));
    EXPECT_TRUE(exchange.run(0).empty());
    exchange.expect_right(0);
  }
}

INSTANTIATE_TEST_SUITE_P(Choices, EveryAlgorithm, ::testing::ValuesIn(all_choices()), [](const auto& param) {
  std::string name = param.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

TEST(Executor, ContiguousBlocksTravelWithoutStaging) {
  // Blocks that lie one after the other in the caller's memory are one message, sent from where they are.
  const Topology t = nodes({2, 2}, false);
  const Counts counts = Counts::uniform(4, 8);
  LocalNetwork network(4);
  std::vector<std::vector<std::byte>> send(4, std::vector<std::byte>(32)),
      recv(4, std::vector<std::byte>(32));
  std::vector<std::unique_ptr<Executor>> ranks;
  for (int r = 0; r < 4; ++r) {
    std::vector<const std::byte*> s;
    std::vector<std::byte*> d;
    for (std::size_t i = 0; i < 4; ++i) {
      s.push_back(send[static_cast<std::size_t>(r)].data() + 8 * i);
      d.push_back(recv[static_cast<std::size_t>(r)].data() + 8 * i);
      send[static_cast<std::size_t>(r)][8 * i] = static_cast<std::byte>(10 * r + static_cast<int>(i));
    }
    ranks.push_back(std::make_unique<Executor>(
        std::make_shared<RankPlan>(plan_rank(t, counts, parse_choice("leaders:split=node"), r)),
        network.transport(r)));
    ranks.back()->bind(s, d);
    ranks.back()->start(0);
  }
  for (int i = 0; i < 20; ++i) {
    for (auto& r : ranks) r->progress(false);
  }
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_TRUE(ranks[r]->done());
    for (std::size_t s = 0; s < 4; ++s) EXPECT_EQ(recv[r][8 * s], static_cast<std::byte>(10 * s + r));
  }
}

TEST(Executor, SaysWhatItWaitsFor) {
  const Topology t = nodes({1, 1}, false);
  LocalNetwork network(2);
  Executor e(std::make_shared<RankPlan>(plan_rank(t, Counts::uniform(2, 4), parse_choice("linear"), 0)),
             network.transport(0));
  std::byte send[8] = {}, recv[8] = {};
  const std::byte* s[] = {send, send + 4};
  std::byte* d[] = {recv, recv + 4};
  e.bind(s, d);
  e.start(0);
  EXPECT_FALSE(e.progress(false));
  const auto waiting = e.waiting(10);
  ASSERT_EQ(waiting.size(), 2U);
  EXPECT_FALSE(waiting[0].is_send);
  EXPECT_EQ(waiting[0].peer, 1);
  EXPECT_EQ(waiting[0].bytes, 4U);
  EXPECT_TRUE(waiting[1].is_send);
}

}  // namespace
}  // namespace tapa
