// Tokens of messages between nodes, with threads' teams in place of the device's: ranks that exchange
// different numbers of times are not taken for absent, and absent ones are found.
#include "device/tokens.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "device/lane_plan.hpp"
#include "host_team.hpp"

namespace tapa::device {
namespace {

using Peers = std::set<int>;  ///< of one exchange

/// A rank's tokens in memory of the host.
class TokenRank {
 public:
  explicit TokenRank(std::size_t size) : mine_(size), got_(size), numbers_(size, 1), missing_(size) {
    own_.sequence = 1;
  }

  void make(const Peers& peers) {
    tokens_ = {mine_.data(), got_.data(), numbers_.data(), &state_, &own_,
               &begun_,      &ended_,     missing_.data(), 0,       {}};
    for (const int peer : peers) tokens_.peers[tokens_.count++] = static_cast<std::uint16_t>(peer);
    run([&](HostTeam& team) { make_tokens(team, tokens_); });
  }
  void check() {
    run([&](HostTeam& team) { check_tokens(team, tokens_); });
  }
  [[nodiscard]] Word mine(int peer) const { return mine_[static_cast<std::size_t>(peer)]; }
  void get(int peer, Word token) { got_[static_cast<std::size_t>(peer)] = token; }
  [[nodiscard]] Word missing(int peer) const { return missing_[static_cast<std::size_t>(peer)]; }
  void fail() { state_.aborted = 1; }
  [[nodiscard]] bool failed() const { return state_.aborted != 0; }
  [[nodiscard]] bool all_ended() const { return begun_ == ended_; }

 private:
  template <class Work>
  static void run(Work work) {
    TeamMeeting meeting(1);
    HostTeam team(meeting, 0, 0, 1, 0);
    work(team);
  }

  std::vector<Word> mine_, got_, numbers_, missing_;
  LocalState state_{}, own_{};
  Word begun_ = 0, ended_ = 0;
  Tokens tokens_{};
};

/// Ranks whose exchanges happen as their peers come to them, tokens in order between two ranks.
class TokenMachine {
 public:
  explicit TokenMachine(int size) : ranks_(static_cast<std::size_t>(size), TokenRank(as_size(size))) {}

  TokenRank& rank(int rank) { return ranks_[as_size(rank)]; }

  /// All ranks' exchanges; false when some wait for ever.
  bool run(std::vector<std::deque<Peers>> exchanges) {
    std::vector<bool> begun(ranks_.size());
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t me = 0; me < ranks_.size(); ++me) {
        if (exchanges[me].empty()) continue;
        const Peers& peers = exchanges[me].front();
        if (!begun[me]) send(static_cast<int>(me), peers);
        begun[me] = true;
        if (!receive(static_cast<int>(me), peers)) continue;
        exchanges[me].pop_front();
        begun[me] = false;
        moved = true;
      }
    }
    return std::all_of(exchanges.begin(), exchanges.end(), [](const auto& left) { return left.empty(); });
  }

 private:
  static std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

  void send(int me, const Peers& peers) {
    rank(me).make(peers);
    for (const int peer : peers) way_[{me, peer}].push_back(rank(me).mine(peer));
  }
  bool receive(int me, const Peers& peers) {
    for (const int peer : peers) {
      if (way_[{peer, me}].empty()) return false;
    }
    for (const int peer : peers) {
      rank(me).get(peer, way_[{peer, me}].front());
      way_[{peer, me}].pop_front();
    }
    rank(me).check();
    return true;
  }

  std::vector<TokenRank> ranks_;
  std::map<std::pair<int, int>, std::deque<Word>> way_;
};

/// The exchanges of a rank's steps.
std::deque<Peers> exchanges_of(const std::vector<LaneStep>& steps) {
  std::deque<Peers> exchanges;
  for (const LaneStep& step : steps) {
    const auto* const start = std::get_if<Start>(&step);
    if (start == nullptr) continue;
    Peers peers;
    for (const Message& message : start->sends) peers.insert(message.peer);
    for (const Message& message : start->receives) peers.insert(message.peer);
    if (!peers.empty()) exchanges.push_back(peers);
  }
  return exchanges;
}

/// bytes[from][to]
using Counts = std::vector<std::vector<std::size_t>>;

/// One call of ranks on nodes of their own: alltoallv, or strided blocks in pieces of `piece` bytes.
std::vector<std::deque<Peers>> call_of(const Counts& bytes, std::size_t piece) {
  const std::size_t size = bytes.size();
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < size; ++rank) names.push_back("node" + std::to_string(rank));
  const Partition nodes = nodes_of_names(names);
  std::vector<std::deque<Peers>> exchanges;
  for (std::size_t rank = 0; rank < size; ++rank) {
    std::vector<std::size_t> receive_bytes;
    for (std::size_t from = 0; from < size; ++from) receive_bytes.push_back(bytes[from][rank]);
    const std::vector<std::size_t> at(size);
    const int r = static_cast<int>(rank);
    exchanges.push_back(exchanges_of(piece == 0
                                         ? alltoallv_steps(nodes, r, {bytes[rank], at, receive_bytes, at})
                                         : strided_steps(nodes, r, bytes[rank], receive_bytes, piece, 0)));
  }
  return exchanges;
}

void expect_nobody_missing(TokenMachine& machine, int size) {
  for (int rank = 0; rank < size; ++rank) {
    EXPECT_FALSE(machine.rank(rank).failed()) << "rank " << rank;
    EXPECT_TRUE(machine.rank(rank).all_ended()) << "rank " << rank;
    for (int peer = 0; peer < size; ++peer)
      EXPECT_EQ(machine.rank(rank).missing(peer), 0U) << "rank " << rank << " of " << peer;
  }
}

const Counts kAll = {{0, 9, 9}, {9, 0, 9}, {9, 9, 0}};
const Counts kFirstTwo = {{0, 9, 0}, {9, 0, 0}, {0, 0, 0}};
const Counts kUneven = {{0, 95, 3}, {0, 0, 41}, {7, 0, 0}};

TEST(Tokens, RanksThatExchangeNothingInSomeCallsAreNotMissing) {
  TokenMachine machine(3);
  for (const Counts& counts : {kFirstTwo, kAll, kFirstTwo, kUneven, kAll}) {
    ASSERT_TRUE(machine.run(call_of(counts, 0)));
    expect_nobody_missing(machine, 3);
  }
}

TEST(Tokens, RanksWithMorePiecesThanOthersAreNotMissing) {
  TokenMachine machine(3);
  for (const Counts& counts : {kUneven, kAll, kUneven}) {
    ASSERT_TRUE(machine.run(call_of(counts, 10)));
    expect_nobody_missing(machine, 3);
  }
}

TEST(Tokens, ARankThatHasFailedIsMissingToThoseWhoHearFromIt) {
  TokenMachine machine(3);
  ASSERT_TRUE(machine.run(call_of(kFirstTwo, 0)));
  machine.rank(2).fail();
  ASSERT_TRUE(machine.run(call_of(kAll, 0)));
  EXPECT_EQ(machine.rank(0).missing(2), 2U) << "the number of this rank's exchange";
  EXPECT_EQ(machine.rank(1).missing(2), 2U);
  EXPECT_EQ(machine.rank(0).missing(1), 0U);
}

}  // namespace
}  // namespace tapa::device
