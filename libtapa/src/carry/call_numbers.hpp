/// @file
/// What ranks tell each other beside a run: that they make the call, counts, checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "carry/choosing.hpp"
#include "comm/comm_state.hpp"
#include "plan/choice.hpp"
#include "plan/counts.hpp"
#include "plan/planner.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"
#include "run/small_exchange.hpp"

namespace tapa {

/// One of these at a time.
class CallNumbers {
 public:
  /// That this rank makes the call, so that it can be named who does not.
  void start_arrivals(const Call& call) {
    outgoing_.assign(1, 1);
    start(call, window_tags::kArrivals, other_ranks(*call.state), 1, true);
  }
  /// All tell all how much they send to them, then the first block whose ends disagree: so all fail alike.
  void start_check(const Call& call) {
    outgoing_.clear();
    for (const int peer : other_ranks(*call.state))
      outgoing_.push_back(call.exchange.send[static_cast<std::size_t>(peer)].bytes);
    start(call, window_tags::kCheck, other_ranks(*call.state), 1, false);
  }

  void start_verdict(const Call& call) {
    outgoing_.assign({0, 0, 0, 0});  // whether there is one, its sender, bytes sent, bytes expected
    const auto compare = [&](int from, std::size_t sent) {
      const std::size_t expected = call.exchange.recv[static_cast<std::size_t>(from)].bytes;
      if (outgoing_[0] == 0 && sent != expected)
        outgoing_ = {1, static_cast<std::size_t>(from), sent, expected};
    };
    for (std::size_t i = 0; i < exchange_.members().size(); ++i)
      compare(exchange_.members()[i], exchange_.from(i)[0]);
    const int own = call.state->rank;
    compare(own, call.exchange.send[static_cast<std::size_t>(own)].bytes);
    start(call, window_tags::kVerdict, other_ranks(*call.state), outgoing_.size(), true);
  }
  /// Throws the CallError that all ranks throw, if some block's ends differ.
  void judge(const CommState& state) const {
    // In order of ranks, so that all name the same block.
    for (int rank = 0; rank < state.size; ++rank) {
      const auto other = static_cast<std::size_t>(rank < state.rank ? rank : rank - 1);
      const std::span<const std::size_t> verdict =
          rank == state.rank ? std::span<const std::size_t>(outgoing_) : exchange_.from(other);
      if (verdict[0] == 0) continue;
      throw CallError(MPI_ERR_TRUNCATE,
                      words("rank ", verdict[1], " sends ", verdict[2], " bytes to rank ", rank,
                            ", which expects ", verdict[3]),
                      CallError::Seen::everywhere);
    }
  }
  /// A group's ranks tell each other the row and column that a choice needs, in bytes or blocks along edges.
  void start_counts(const Call& call, const Choice& choice, bool blocks) {
    outgoing_.clear();
    if (blocks) {
      const auto ranks = static_cast<std::size_t>(call.state->size);
      const auto number = [&](const Edges::Side& side, std::size_t first) {
        for (const Edges::Peer& peer : side.peers)
          outgoing_[first + static_cast<std::size_t>(peer.rank)] = static_cast<std::size_t>(peer.number);
      };
      outgoing_.resize(2 * ranks);
      number(call.edges->send, 0);
      number(call.edges->recv, ranks);
    } else {
      for (const Block& block : call.exchange.send) outgoing_.push_back(block.bytes);
      for (const Block& block : call.exchange.recv) outgoing_.push_back(block.bytes);
    }
    start(call, window_tags::kCounts, who_tells(call, choice), outgoing_.size(), true);
  }
  /// All numbers that the counts of this rank's part of the plan depend on, and these counts.
  [[nodiscard]] std::vector<std::size_t> numbers() const {
    std::vector<std::size_t> all = outgoing_;
    for (std::size_t i = 0; i < exchange_.members().size(); ++i) {
      const auto from = exchange_.from(i);
      all.insert(all.end(), from.begin(), from.end());
    }
    return all;
  }

  [[nodiscard]] Counts counts(const CommState& state, const std::vector<std::size_t>& numbers) const {
    const auto ranks = static_cast<std::size_t>(state.size);
    std::vector<int> known{state.rank};
    known.insert(known.end(), exchange_.members().begin(), exchange_.members().end());
    std::vector<std::size_t> rows;
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < known.size(); ++i) {
      const auto of_rank = std::span(numbers).subspan(i * 2 * ranks, 2 * ranks);
      rows.insert(rows.end(), of_rank.begin(), of_rank.begin() + static_cast<std::ptrdiff_t>(ranks));
      columns.insert(columns.end(), of_rank.begin() + static_cast<std::ptrdiff_t>(ranks), of_rank.end());
    }
    return Counts::partial(state.size, std::move(known), std::move(rows), std::move(columns));
  }

  /// TAPA_CHECK=data: checksums of the blocks that are sent; `send`: where they lie, dense. Throws CallError.
  void start_sums(const Call& call, std::span<const std::byte* const> send) {
    outgoing_.clear();
    for (const int peer : other_ranks(*call.state)) {
      const auto at = static_cast<std::size_t>(peer);
      outgoing_.push_back(send.empty() ? 0 : checksum(send[at], call.exchange.send[at].bytes));
    }
    start(call, window_tags::kSums, other_ranks(*call.state), 1, false);
  }
  /// Throws CallError where a block that has arrived, at `recv`, has another one.
  void check_sums(const Call& call, std::span<std::byte* const> recv) const {
    for (std::size_t i = 0; i < exchange_.members().size(); ++i) {
      const int peer = exchange_.members()[i];
      const auto at = static_cast<std::size_t>(peer);
      const std::size_t arrived = checksum(recv[at], call.exchange.recv[at].bytes);
      const std::size_t sent = exchange_.from(i)[0];
      if (arrived == sent) continue;
      char text[160];
      std::snprintf(text, sizeof text,
                    "the %zu bytes from rank %d to rank %d have checksum %016zx, expected %016zx",
                    call.exchange.recv[at].bytes, peer, call.state->rank, arrived, sent);
      refuse(MPI_ERR_OTHER, text);
    }
  }

  /// Whether the numbers of all are there. Throws CallError.
  [[nodiscard]] bool test() { return exchange_.test(); }
  [[nodiscard]] bool pending() const { return exchange_.pending(); }
  void give_up() { exchange_.give_up(); }
  /// Ranks whose numbers are missing, some of them.
  [[nodiscard]] std::vector<int> missing() const { return exchange_.missing(8); }

 private:
  /// All ranks of a communicator but this one.
  static std::vector<int> other_ranks(const CommState& state) {
    std::vector<int> ranks(static_cast<std::size_t>(state.size));
    std::iota(ranks.begin(), ranks.end(), 0);
    ranks.erase(ranks.begin() + state.rank);
    return ranks;
  }

  /// Nobody else, all, or the group of this rank at the slowest split of a choice.
  static std::vector<int> who_tells(const Call& call, const Choice& choice) {
    const Knowledge needed = knowledge_needed(choice);
    if (needed == Knowledge::own) return {};
    std::vector<int> ranks = other_ranks(*call.state);
    if (needed == Knowledge::group) {
      const Topology& topology = *call.rules->topology;
      const int split = topology.find_level(choice.splits.back());
      const auto& group = topology.levels.at(static_cast<std::size_t>(split)).group;
      const int own = group[static_cast<std::size_t>(call.state->rank)];
      std::erase_if(ranks, [&](int rank) { return group[static_cast<std::size_t>(rank)] != own; });
    }
    return ranks;
  }

  /// FNV-1a, 64 bits (Fowler, Noll, Vo).
  static std::size_t checksum(const std::byte* data, std::size_t bytes) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (std::size_t i = 0; i < bytes; ++i)
      hash = (hash ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3ULL;
    return hash;
  }

  void start(const Call& call, int tag, std::vector<int> members, std::size_t each, bool same) {
    exchange_.start(call.state->space, call.tags.first + tag, std::move(members), each, outgoing_, same);
  }

  SmallExchange exchange_;
  std::vector<std::size_t> outgoing_;
};

}  // namespace tapa
