// What ranks tell each other before a run, in a few numbers: that they make the call, what they send, their
// counts.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/operation.hpp"
#include "plan/planner.hpp"
#include "run/error.hpp"

namespace tapa {

namespace {

// Tags of an operation's window: the first ones are for its own small messages, the rest for the plan's
// channels.
constexpr int kCheckTag = 0;
constexpr int kVerdictTag = 1;
constexpr int kCountsTag = 2;
constexpr int kArrivalTag = 4;  // 3 is that of checksums

/// The group of this rank at the slowest split of a choice.
std::vector<int> group_members(const Topology& topology, const Choice& choice, int rank) {
  const Level& level =
      topology.levels.at(static_cast<std::size_t>(topology.find_level(choice.splits.back())));
  std::vector<int> members;
  for (int r = 0; r < topology.ranks; ++r) {
    if (level.group[static_cast<std::size_t>(r)] == level.group[static_cast<std::size_t>(rank)])
      members.push_back(r);
  }
  return members;
}

}  // namespace

void Operation::after_turn() {
  by_memory_ = !judging_ && goes_through_memory();
  if (by_memory_) {
    stage_ = Stage::plan;  // who comes, and with which counts, is seen there
  } else if (options_->settings().timeout > 0) {
    outgoing_.assign(1, 1);
    numbers_.start(state_->space(), tags_.first + kArrivalTag, others(), 1, outgoing_, true);
    stage_ = Stage::arrivals;
  } else {
    after_arrivals();
  }
}

void Operation::after_arrivals() {
  if (compares() || judging_) {
    start_check();
    stage_ = Stage::check;
  } else {
    stage_ = Stage::plan;
  }
}

std::vector<int> Operation::others() const {
  std::vector<int> ranks(static_cast<std::size_t>(state_->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  ranks.erase(ranks.begin() + state_->rank());
  return ranks;
}

// Everybody tells everybody how much it sends to them.
void Operation::start_check() {
  outgoing_.clear();
  for (const int peer : others()) outgoing_.push_back(exchange_.send[static_cast<std::size_t>(peer)].bytes);
  numbers_.start(state_->space(), tags_.first + kCheckTag, others(), 1, outgoing_, false);
}

// Everybody tells everybody the first block whose two ends disagree, so that all ranks fail alike.
void Operation::start_verdict() {
  outgoing_.assign({0, 0, 0, 0});  // whether there is one, its sender, bytes sent, bytes expected
  const auto compare = [&](int from, std::size_t sent) {
    const std::size_t expected = exchange_.recv[static_cast<std::size_t>(from)].bytes;
    if (outgoing_[0] == 0 && sent != expected)
      outgoing_ = {1, static_cast<std::size_t>(from), sent, expected};
  };
  for (std::size_t i = 0; i < numbers_.members().size(); ++i)
    compare(numbers_.members()[i], numbers_.from(i)[0]);
  compare(state_->rank(), exchange_.send[static_cast<std::size_t>(state_->rank())].bytes);
  numbers_.start(state_->space(), tags_.first + kVerdictTag, others(), outgoing_.size(), outgoing_, true);
  stage_ = Stage::verdict;
}

bool Operation::step_verdict() {
  if (!numbers_.test()) return false;
  const auto judge = [&](int receiver, std::span<const std::size_t> verdict) {
    if (verdict[0] == 0) return;
    throw CallError(MPI_ERR_TRUNCATE,
                    "rank " + std::to_string(verdict[1]) + " sends " + std::to_string(verdict[2]) +
                        " bytes to rank " + std::to_string(receiver) + ", which expects " +
                        std::to_string(verdict[3]),
                    CallError::Seen::everywhere);
  };
  // In order of ranks, so that all name the same block.
  for (int rank = 0; rank < state_->size(); ++rank) {
    if (rank == state_->rank()) {
      judge(rank, outgoing_);
    } else {
      judge(rank, numbers_.from(static_cast<std::size_t>(rank < state_->rank() ? rank : rank - 1)));
    }
  }
  if (judging_)
    throw CallError(MPI_ERR_TRUNCATE, "the two ends of a block differ", CallError::Seen::everywhere);
  stage_ = Stage::plan;
  return true;
}

void Operation::judge() {
  judging_ = true;
}

// The ranks of a group tell each other their row and their column: what the choice needs to plan.
void Operation::start_counts() {
  std::vector<int> members;
  switch (knowledge_needed(decision_.choice)) {
    case Knowledge::own:
      break;
    case Knowledge::group:
      members = group_members(*state_->topology(), decision_.choice, state_->rank());
      break;
    case Knowledge::all:
      members = others();
      break;
  }
  std::erase(members, state_->rank());
  outgoing_.clear();
  for (const Block& block : exchange_.send) outgoing_.push_back(block.bytes);
  for (const Block& block : exchange_.recv) outgoing_.push_back(block.bytes);
  numbers_.start(state_->space(), tags_.first + kCountsTag, std::move(members), outgoing_.size(), outgoing_,
                 true);
  stage_ = Stage::counts;
}

void Operation::plan_from_counts() {
  const auto ranks = static_cast<std::size_t>(state_->size());
  const std::vector<int>& members = numbers_.members();
  key_ = outgoing_;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto from = numbers_.from(i);
    key_.insert(key_.end(), from.begin(), from.end());
  }
  // Planning happens only when the plan is not cached; the key alone decides that.
  std::vector<int> known{state_->rank()};
  known.insert(known.end(), members.begin(), members.end());
  std::vector<std::size_t> rows;
  std::vector<std::size_t> columns;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const auto numbers = std::span(key_).subspan(i * 2 * ranks, 2 * ranks);
    rows.insert(rows.end(), numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(ranks));
    columns.insert(columns.end(), numbers.begin() + static_cast<std::ptrdiff_t>(ranks), numbers.end());
  }
  entry_ = state_->parts()->chooser.plan_for(
      decision_.text, decision_,
      Counts::partial(state_->size(), std::move(known), std::move(rows), std::move(columns)), key_, mean_);
  stage_ = Stage::ready;
  end_preparation();
}

}  // namespace tapa
