#include "carry/selection_agreement.hpp"

#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "carry/requests.hpp"
#include "run/error.hpp"

namespace tapa {

namespace {

// With more ranks than this the counts of all pairs are not kept: 4 bytes for each pair, on each rank.
constexpr int kKnownRanks = 512;

constexpr std::int32_t kNoBoundary = -1;  // a level that the topology does not have

/// What every rank tells every other one first; followed by the sender's travelling rows for all ranks when
/// there are at most kKnownRanks.
struct Header {
  std::int32_t good;      // whether the sender's arguments were right
  std::int32_t boundary;  // first level whose messages carry active rows only
  std::int32_t rows;      // of the block for the receiver
  std::int32_t active;
};

/// What every rank tells every other one behind a step.
struct Verdict {
  enum Kind : std::int32_t { fine, rows, boundary, failed };
  std::int32_t kind = fine;
  std::int32_t other = 0;
  std::int32_t others_value = 0;
  std::int32_t own_value = 0;
};

/// Blocks of these sizes, one behind the other.
std::vector<Block> blocks_of(std::byte* at, const std::vector<std::size_t>& sizes) {
  std::vector<Block> blocks;
  for (const std::size_t bytes : sizes) {
    blocks.emplace_back();
    blocks.back().data = at;
    blocks.back().bytes = bytes;
    at += bytes;
  }
  return blocks;
}

/// Sends blocks to all ranks and receives others. `uniform`: all have the same size, on all ranks.
void exchange_blocks(const std::shared_ptr<CommState>& state, bool uniform, std::vector<Block> send,
                     std::vector<Block> recv) {
  auto operation = begin_operation(state, Mode::blocking, "TAPA_Selection_create");
  Exchange& e = operation->call().exchange;
  e = {};
  e.uniform = uniform;
  e.uniform_bytes = uniform ? send[0].bytes : 0;
  e.send = std::move(send);
  e.recv = std::move(recv);
  run_to_end(std::move(operation));
}

/// One record of the same size to and from every rank.
template <class Record>
std::vector<Record> exchange_records(const std::shared_ptr<CommState>& state, std::vector<Record> mine,
                                     std::size_t each) {
  std::vector<Record> theirs(mine.size());
  const std::vector<std::size_t> bytes(mine.size() / each, each * sizeof(Record));
  const auto blocks = [&](std::vector<Record>& records) {
    return blocks_of(reinterpret_cast<std::byte*>(records.data()), bytes);
  };
  exchange_blocks(state, true, blocks(mine), blocks(theirs));
  return theirs;
}

void require_array(const int* array, const char* name) {
  if (array == nullptr) refuse(MPI_ERR_ARG, name, " is null, expected an array");
}

void require_count(int value, const char* name, int at) {
  if (value < 0) refuse(MPI_ERR_COUNT, name, "[", at, "] is ", value, ", expected 0 or more");
}

/// The caller's lists, one for each block.
class Lists {
 public:
  Lists(const SelectionArguments& arguments, int ranks) : arguments_(arguments) {
    require_array(arguments.sendrows, "sendrows");
    require_array(arguments.recvrows, "recvrows");
    require_array(arguments.nactive, "nactive");
    if (!arguments.has_result)
      refuse(MPI_ERR_ARG, "selection is null, expected the address of a TAPA_Selection");
    check_counts(ranks);
    std::size_t first = 0;
    for (int d = 0; d < ranks; ++d) {
      first_.push_back(first);
      if (arguments.one_list && rows(d) == 0) continue;
      check_active(of(d), rows(d), first, "the block for rank " + std::to_string(d));
      if (!arguments.one_list) first += static_cast<std::size_t>(arguments.nactive[d]);
    }
  }
  [[nodiscard]] std::span<const int> of(int dst) const {
    const bool one = arguments_.one_list;
    const bool empty = one && rows(dst) == 0;  // blocks without rows have no active ones either
    const int count = empty ? 0 : arguments_.nactive[one ? 0 : dst];
    return {arguments_.active + first_[static_cast<std::size_t>(dst)], static_cast<std::size_t>(count)};
  }
  [[nodiscard]] std::size_t rows(int dst) const { return static_cast<std::size_t>(arguments_.sendrows[dst]); }

 private:
  void check_counts(int ranks) const {
    std::int64_t total = 0;
    for (int i = 0; i < ranks; ++i) {
      require_count(arguments_.sendrows[i], "sendrows", i);
      require_count(arguments_.recvrows[i], "recvrows", i);
      if (i > 0 && arguments_.one_list) continue;
      require_count(arguments_.nactive[i], "nactive", i);
      total += arguments_.nactive[i];
    }
    if (total > 0) require_array(arguments_.active, "active");
  }

  const SelectionArguments& arguments_;
  std::vector<std::size_t> first_;
};

/// The first level whose messages carry active rows only.
int boundary_level(const Topology& topology, const char* boundary) {
  if (boundary == nullptr) return topology.nic_level;
  if (*boundary == '\0') return 0;
  const int level = topology.find_level(boundary);
  if (level >= 0) return level + 1;
  std::string names;
  for (const Level& l : topology.levels) names += (names.empty() ? "" : ", ") + l.name;
  refuse(MPI_ERR_ARG, "boundary is \"", boundary, "\", expected a level (", names,
         "), \"\" for everywhere, or null");
}

std::string text_of(int reporter, const Verdict& v) {
  const std::string other = "rank " + std::to_string(v.other);
  const std::string self = "rank " + std::to_string(reporter);
  if (v.kind == Verdict::failed) return self + " failed, its own message says why";
  if (v.kind == Verdict::rows) {
    return words(other, " sends ", v.others_value, " rows to ", self, ", which expects ", v.own_value);
  }
  return words("boundary is level ", v.others_value, " on ", other, " and level ", v.own_value, " on ", self,
               ", expected the same on all ranks");
}

/// The steps of the agreement, as one rank takes them.
class SelectionAgreement {
 public:
  SelectionAgreement(const std::shared_ptr<CommState>& state, const SelectionArguments& arguments)
      : state_(state),
        arguments_(arguments),
        topology_(state->parts()->rules->topology),
        rank_(state->rank()),
        ranks_(state->size()) {}

  /// Checks the own arguments. A rank that finds them wrong still takes part in the first exchange, so that
  /// the others do not wait for it for ever.
  void look_at_own() {
    try {
      lists_ = std::make_unique<Lists>(arguments_, ranks_);
      boundary_ = boundary_level(*topology_, arguments_.boundary);
      for (int d = 0; d < ranks_; ++d) {
        send_.push_back(
            travelling_rows(lists_->rows(d), lists_->of(d), topology_->level_of(rank_, d), boundary_));
      }
    } catch (const std::exception&) {
      wrong_ = std::current_exception();
    }
  }
  void tell_headers() {
    constexpr std::size_t kHeader = sizeof(Header) / sizeof(std::int32_t);
    const auto n = static_cast<std::size_t>(ranks_);
    const std::size_t each = kHeader + (ranks_ <= kKnownRanks ? n : 0);
    std::vector<std::int32_t> mine(n * each, 0);
    for (std::size_t d = 0; d < n && !wrong_; ++d) {
      const auto active = static_cast<std::int32_t>(lists_->of(static_cast<int>(d)).size());
      const Header header{1, boundary_, arguments_.sendrows[d], active};
      std::memcpy(&mine[d * each], &header, sizeof header);
      for (std::size_t i = 0; kHeader + i < each; ++i) {
        mine[d * each + kHeader + i] = static_cast<std::int32_t>(send_[i].travelling);
      }
    }
    const auto theirs = exchange_records(state_, mine, each);
    headers_.resize(n);
    for (std::size_t s = 0; s < n; ++s) {
      std::memcpy(&headers_[s], &theirs[s * each], sizeof(Header));
      for (std::size_t i = kHeader; i < each; ++i)
        counts_.push_back(static_cast<unsigned>(theirs[s * each + i]));
    }
    if (wrong_) std::rethrow_exception(wrong_);
    for (int s = 0; s < ranks_; ++s) {
      if (header(s).good != 0) continue;
      refuse(MPI_ERR_ARG, "rank ", s, " passed wrong arguments or has no memory, its own message says which");
    }
  }
  /// All ranks see whether the headers agree, and each has memory for the lists that come.
  void make_room() {
    together(verdict(), [&] {
      for (const Header& theirs : headers_) incoming_.emplace_back(static_cast<std::size_t>(theirs.active));
    });
  }
  /// All ranks have it, or none.
  [[nodiscard]] std::shared_ptr<const RowSelection> result() {
    std::shared_ptr<const RowSelection> made;
    together({}, [&] {
      tell_lists();
      std::vector<BlockRows> recv;
      for (int s = 0; s < ranks_; ++s) {
        recv.push_back(travelling_rows(static_cast<std::size_t>(header(s).rows),
                                       incoming_[static_cast<std::size_t>(s)], topology_->level_of(s, rank_),
                                       boundary_));
      }
      made =
          std::make_shared<const RowSelection>(rank_, std::move(send_), std::move(recv), std::move(counts_));
    });
    return made;
  }

 private:
  [[nodiscard]] const Header& header(int rank) const { return headers_[static_cast<std::size_t>(rank)]; }
  void tell_lists() {
    std::vector<Block> send(static_cast<std::size_t>(ranks_));
    std::vector<Block> recv(send.size());
    for (int peer = 0; peer < ranks_; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      const std::span<const int> list = lists_->of(peer);
      send[at].data = reinterpret_cast<std::byte*>(const_cast<int*>(list.data()));  // only read
      send[at].bytes = list.size_bytes();
      recv[at].data = reinterpret_cast<std::byte*>(incoming_[at].data());
      recv[at].bytes = incoming_[at].size() * sizeof(int);
    }
    exchange_blocks(state_, false, std::move(send), std::move(recv));
  }
  /// The first disagreement that this rank sees.
  [[nodiscard]] Verdict verdict() const {
    for (int s = 0; s < ranks_; ++s) {
      if (header(s).rows != arguments_.recvrows[s]) {
        return {Verdict::rows, s, header(s).rows, arguments_.recvrows[s]};
      }
      if (header(s).boundary != boundary_) return {Verdict::boundary, s, header(s).boundary, boundary_};
    }
    return {};
  }
  /// Runs a step that may fail, for want of memory. All ranks see all verdicts, so that all fail alike.
  template <class Step>
  void together(Verdict verdict, const Step& step) {
    std::exception_ptr failure;
    try {
      step();
    } catch (const std::exception&) {
      failure = std::current_exception();
      verdict.kind = Verdict::failed;
    }
    const auto verdicts =
        exchange_records(state_, std::vector<Verdict>(static_cast<std::size_t>(ranks_), verdict), 1);
    if (failure) std::rethrow_exception(failure);
    for (int r = 0; r < ranks_; ++r) {
      const Verdict& v = verdicts[static_cast<std::size_t>(r)];
      if (v.kind != Verdict::fine)
        refuse(v.kind == Verdict::failed ? MPI_ERR_OTHER : MPI_ERR_ARG, text_of(r, v));
    }
  }

  std::shared_ptr<CommState> state_;
  const SelectionArguments& arguments_;
  std::shared_ptr<const Topology> topology_;
  int rank_;
  int ranks_;
  int boundary_ = kNoBoundary;
  std::exception_ptr wrong_;
  std::unique_ptr<Lists> lists_;
  std::vector<Header> headers_;
  std::vector<unsigned> counts_;
  std::vector<std::vector<int>> incoming_;  ///< lists of the other ranks
  std::vector<BlockRows> send_;
};

}  // namespace

std::shared_ptr<const RowSelection> agree_on_selection(const std::shared_ptr<CommState>& state,
                                                       const SelectionArguments& arguments) {
  SelectionAgreement agreement(state, arguments);
  agreement.look_at_own();
  agreement.tell_headers();
  agreement.make_room();
  return agreement.result();
}

}  // namespace tapa
