/// @file
/// How the ranks of a communicator agree on a selection.
#pragma once

#include <mpi.h>

#include <array>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/comm_state.hpp"
#include "run/error.hpp"
#include "run/own_mpi.hpp"
#include "run/poll_to_end.hpp"
#include "run/selection.hpp"

namespace tapa {

/// Arguments of TAPA_Selection_create.
struct SelectionArguments {
  const int* sendrows;
  const int* recvrows;
  const int* nactive;
  const int* active;
  bool one_list;
  const char* boundary;
  bool has_result;  ///< whether the caller gave a place for the result
};

/// One call of TAPA_Selection_create, step by step, all collective over its communicator.
class SelectionAgreement {
 public:
  SelectionAgreement(CommState& state, const SelectionArguments& arguments)
      : state_(state),
        arguments_(arguments),
        topology_(state.parts()->rules->topology),
        rank_(state.rank),
        ranks_(state.size) {}

  /// Throws CallError on all ranks when an argument of one is wrong, or two disagree about a block's rows or
  /// the boundary; the message names ranks and values.
  [[nodiscard]] std::shared_ptr<const RowSelection> run() {
    together(MPI_ERR_ARG, " passed wrong arguments or has no memory, its own message says which",
             [&] { look_at_own(); });
    collect([&](MPI_Request* request) {
      return TAPA_OWN_MPI(PMPI_Ialltoall)(mine_.data(), kHeaderInts, MPI_INT, theirs_.data(), kHeaderInts,
                                          MPI_INT, state_.user, request);
    });
    if (!counts_.empty()) {
      collect([&](MPI_Request* request) {
        return PMPI_Iallgather(travelling_.data(), ranks_, MPI_UNSIGNED, counts_.data(), ranks_, MPI_UNSIGNED,
                               state_.user, request);
      });
    }
    constexpr const char* failed = " failed, its own message says why";
    together(MPI_ERR_OTHER, failed, [&] { compare_and_make_room(); });
    collect([&](MPI_Request* request) {
      return TAPA_OWN_MPI(PMPI_Ialltoallv)(arguments_.active, send_counts_.data(), send_displs_.data(),
                                           MPI_INT, incoming_.data(), recv_counts_.data(),
                                           recv_displs_.data(), MPI_INT, state_.user, request);
    });
    std::shared_ptr<const RowSelection> made;
    together(MPI_ERR_OTHER, failed, [&] { made = result(); });
    return made;
  }

 private:
  // With more ranks than this the counts of all pairs are not kept: 4 bytes for each pair, on each rank.
  static constexpr int kKnownRanks = 512;

  /// What every rank tells every other one of the block between them.
  struct Header {
    int boundary;  // first level whose messages carry active rows only
    int rows;
    int active;
  };
  static constexpr int kHeaderInts = sizeof(Header) / sizeof(int);

  static void require_array(const int* array, const char* name) {
    if (array == nullptr) refuse(MPI_ERR_ARG, name, " is null, expected an array");
  }

  static void require_count(int value, const char* name, int at) {
    if (value < 0) refuse(MPI_ERR_COUNT, name, "[", at, "] is ", value, ", expected 0 or more");
  }

  static void check_counts(const SelectionArguments& a, int ranks) {
    require_array(a.sendrows, "sendrows");
    require_array(a.recvrows, "recvrows");
    require_array(a.nactive, "nactive");
    if (!a.has_result) refuse(MPI_ERR_ARG, "selection is null, expected the address of a TAPA_Selection");
    bool any = false;
    for (int i = 0; i < ranks; ++i) {
      require_count(a.sendrows[i], "sendrows", i);
      require_count(a.recvrows[i], "recvrows", i);
      if (i > 0 && a.one_list) continue;
      require_count(a.nactive[i], "nactive", i);
      any = any || a.nactive[i] > 0;
    }
    if (any) require_array(a.active, "active");
  }

  /// The first level whose messages carry active rows only.
  static int boundary_level(const Topology& topology, const char* boundary) {
    if (boundary == nullptr) return topology.nic_level;
    if (*boundary == '\0') return 0;
    const int level = topology.find_level(boundary);
    if (level >= 0) return level + 1;
    std::string names;
    for (const Level& l : topology.levels) names += (names.empty() ? "" : ", ") + l.name;
    refuse(MPI_ERR_ARG, "boundary is \"", boundary, "\", expected a level (", names,
           "), \"\" for everywhere, or null");
  }

  /// Runs a step in which this rank may find something wrong, or have no memory. If any does all ranks fail:
  /// it by its own error, the others by the first one's, or by `failed` of that rank.
  template <class Step>
  void together(int code, const char* failed, const Step& step) {
    struct {
      int code;
      std::array<char, 200> text;
    } told{code, {}};
    std::exception_ptr own;
    int first = ranks_;
    try {
      step();
    } catch (const std::exception& e) {
      first = rank_;
      const auto* const error = dynamic_cast<const CallError*>(&e);
      if (error != nullptr && error->seen() == CallError::Seen::everywhere) {
        told.code = error->code();
        std::snprintf(told.text.data(), told.text.size(), "%s", e.what());
      } else {
        own = std::current_exception();
        std::snprintf(told.text.data(), told.text.size(), "rank %d%s", rank_, failed);
      }
    }
    collect([&](MPI_Request* request) {
      return PMPI_Iallreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, state_.user, request);
    });
    if (first == ranks_) return;
    collect([&](MPI_Request* request) {
      return PMPI_Ibcast(&told, sizeof told, MPI_BYTE, first, state_.user, request);
    });
    if (own) std::rethrow_exception(own);
    refuse(told.code, told.text.data());
  }

  /// Carries out a collective call of MPI's. What other ranks wait for before they come goes on meanwhile.
  template <class Start>
  void collect(const Start& start) {
    PendingCollective pending{MPI_REQUEST_NULL, "TAPA_Selection_create"};
    check_mpi(start(&pending.request), pending.function);
    poll_to_end(pending, false, state_.waiter(), {pending.function, state_.rules().timeout},
                [] { return std::string("waits for the other ranks to make the call"); });
  }

  void look_at_own() {
    check_counts(arguments_, ranks_);
    boundary_ = boundary_level(*topology_, arguments_.boundary);
    const auto n = static_cast<std::size_t>(ranks_);
    theirs_.resize(n);
    if (ranks_ <= kKnownRanks) counts_.resize(n * n);
    std::int64_t first = 0;
    for (int d = 0; d < ranks_; ++d) {
      const int rows = arguments_.sendrows[d];
      const bool one = arguments_.one_list;
      const bool none = one && rows == 0;  // blocks without rows have no active ones either
      const int active = none ? 0 : arguments_.nactive[one ? 0 : d];
      const std::span list(arguments_.active + first, static_cast<std::size_t>(active));
      if (!none)
        check_active(list, static_cast<std::size_t>(rows), static_cast<std::size_t>(first),
                     "the block for rank " + std::to_string(d));
      send_.push_back(
          travelling_rows(static_cast<std::size_t>(rows), list, topology_->level_of(rank_, d), boundary_));
      travelling_.push_back(static_cast<unsigned>(send_.back().travelling));
      mine_.push_back({boundary_, rows, active});
      send_counts_.push_back(active);
      send_displs_.push_back(static_cast<int>(first));
      if (!one) first += active;
      require_ints(first);
    }
  }

  /// The first disagreement that this rank sees; room for the lists that come.
  void compare_and_make_room() {
    const auto differ = [](const auto&... parts) {
      throw CallError(MPI_ERR_ARG, words(parts...), CallError::Seen::everywhere);
    };
    std::int64_t first = 0;
    for (int s = 0; s < ranks_; ++s) {
      const Header& h = theirs_[static_cast<std::size_t>(s)];
      if (h.rows != arguments_.recvrows[s])
        differ("rank ", s, " sends ", h.rows, " rows to rank ", rank_, ", which expects ",
               arguments_.recvrows[s]);
      if (h.boundary != boundary_)
        differ("boundary is level ", h.boundary, " on rank ", s, " and level ", boundary_, " on rank ", rank_,
               ", expected the same on all ranks");
      recv_counts_.push_back(h.active);
      recv_displs_.push_back(static_cast<int>(first));
      require_ints(first += h.active);
    }
    incoming_.resize(static_cast<std::size_t>(first));
  }

  [[nodiscard]] std::shared_ptr<const RowSelection> result() {
    std::vector<BlockRows> recv;
    for (int s = 0; s < ranks_; ++s) {
      const auto at = static_cast<std::size_t>(s);
      const std::span list(incoming_.data() + recv_displs_[at], static_cast<std::size_t>(recv_counts_[at]));
      recv.push_back(travelling_rows(static_cast<std::size_t>(theirs_[at].rows), list,
                                     topology_->level_of(s, rank_), boundary_));
    }
    return std::make_shared<const RowSelection>(rank_, std::move(send_), std::move(recv), std::move(counts_));
  }

  static void require_ints(std::int64_t active) {
    if (active > INT_MAX)
      refuse(MPI_ERR_COUNT, "the lists of active rows have ", active, " entries, expected at most ", INT_MAX);
  }

  CommState& state_;
  SelectionArguments arguments_;
  std::shared_ptr<const Topology> topology_;
  int rank_;
  int ranks_;
  int boundary_ = 0;
  std::vector<Header> mine_, theirs_;
  std::vector<BlockRows> send_;
  std::vector<unsigned> travelling_, counts_;  // rows to each rank; of all pairs
  std::vector<int> send_counts_, send_displs_, recv_counts_, recv_displs_;
  std::vector<int> incoming_;  // lists of the other ranks
};

}  // namespace tapa
