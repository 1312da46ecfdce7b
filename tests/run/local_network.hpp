/// @file
/// All ranks of an all-to-all in one process: a network of mailboxes for testing executors without MPI.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "transport/transport.hpp"

namespace tapa::testing {

/// Matches sends with receives by (from, to, tag), in posting order. Sends are synchronous: they complete
/// when matched.
class LocalNetwork {
 public:
  explicit LocalNetwork(int ranks) : completed_(static_cast<std::size_t>(ranks)) {}

  std::unique_ptr<Transport> transport(int rank) { return std::make_unique<Port>(*this, rank); }

  [[nodiscard]] std::size_t unmatched() const {
    std::size_t n = 0;
    for (const auto& [key, box] : boxes_) n += box.sends.size() + box.recvs.size();
    return n;
  }

 private:
  struct Send {
    int slot;
    Pieces data;
  };
  struct Recv {
    int slot;
    Pieces data;
  };
  struct Box {
    std::vector<Send> sends;
    std::vector<Recv> recvs;
  };

  class Port final : public Transport {
   public:
    Port(LocalNetwork& network, int rank) : network_(network), rank_(rank) {}
    void reserve(int) override {}
    /// To even ranks messages go in pieces, so that both ways are run; also one end in pieces, the other not.
    [[nodiscard]] bool takes_pieces(int peer, std::size_t) const override { return peer % 2 == 0; }
    void post_send(int slot, int peer, int tag, Pieces data) override {
      network_.boxes_[{rank_, peer, tag}].sends.push_back({slot, data});
      network_.match(rank_, peer, tag);
    }
    void post_recv(int slot, int peer, int tag, Pieces data) override {
      network_.boxes_[{peer, rank_, tag}].recvs.push_back({slot, data});
      network_.match(peer, rank_, tag);
    }
    void poll(std::vector<int>& completed, bool) override {
      auto& mine = network_.completed_[static_cast<std::size_t>(rank_)];
      completed.insert(completed.end(), mine.begin(), mine.end());
      mine.clear();
    }

   private:
    LocalNetwork& network_;
    int rank_;
  };

  void match(int from, int to, int tag) {
    Box& box = boxes_[{from, to, tag}];
    while (!box.sends.empty() && !box.recvs.empty()) {
      const Send s = box.sends.front();
      const Recv r = box.recvs.front();
      box.sends.erase(box.sends.begin());
      box.recvs.erase(box.recvs.begin());
      if (bytes_of(s.data) != bytes_of(r.data)) throw TransportError("message sizes differ");
      const bool empty = is_nothing(s.data);
      PieceCursor target(r.data);
      for (Piece from : empty || is_nothing(r.data) ? Pieces() : s.data) {
        while (!from.empty()) {
          const Piece here = target.take(from.size());
          std::memcpy(here.data(), from.data(), here.size());
          from = from.subspan(here.size());
        }
      }
      completed_[static_cast<std::size_t>(from)].push_back(s.slot);
      completed_[static_cast<std::size_t>(to)].push_back(empty ? ~r.slot : r.slot);
    }
  }

  std::map<std::tuple<int, int, int>, Box> boxes_;
  std::vector<std::vector<int>> completed_;
};

}  // namespace tapa::testing
