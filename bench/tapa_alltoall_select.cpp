// Latency of a selective all-to-all: of each block only the active rows travel between nodes.
// The rival in a race is the best that a program can do by hand: pack, MPI_Alltoallv, unpack, with the same
// bytes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/driver.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Select final : public Exchange {
 public:
  Select(MPI_Comm comm, const Options& options) : options_(options), machine_(describe_machine(comm)) {
    MPI_Comm_rank(comm, &rank_);
    const int active = static_cast<int>(std::ceil(options.active * options.rows));
    for (int i = 0; i < active; ++i) {
      active_.push_back(static_cast<int>(static_cast<long long>(i) * options.rows / active));
    }
  }

  void resize(std::size_t bytes) override {
    row_bytes_ = std::max<std::size_t>(1, bytes / rows());
    const std::size_t all = row_bytes_ * rows() * ranks();
    for (std::vector<std::uint8_t>* buffer : {&send_, &recv_, &packed_send_, &packed_recv_}) {
      buffer->assign(all + 1, 0);
    }
    at_.clear();
    packed_counts_.clear();
    packed_at_.clear();
    int packed = 0;
    for (int peer = 0; peer < machine_.ranks; ++peer) {
      at_.push_back(static_cast<MPI_Aint>(peer) * options_.rows);
      packed_at_.push_back(packed);
      packed_counts_.push_back(static_cast<int>((selective(peer) ? active_.size() : rows()) * row_bytes_));
      packed += packed_counts_.back();
    }
    fill(0);
  }

  void release() override {
    for (OnComm& known : selections_) {
      check(TAPA_Selection_free(&known.selection), "TAPA_Selection_free");
    }
    selections_.clear();
  }

  [[nodiscard]] std::size_t block_bytes(int, int) const override { return active_.size() * row_bytes_; }

  [[nodiscard]] std::size_t mean_bytes() const override {
    return static_cast<std::size_t>(packed_at_.back() + packed_counts_.back()) / ranks();
  }

  void fill(std::uint32_t seed) override {
    recv_.assign(recv_.size(), poison);
    for (int peer = 0; peer < machine_.ranks; ++peer) {
      for (std::size_t at = 0; at < rows() * row_bytes_; ++at) {
        send_[block_at(peer) + at] = pattern(seed, rank_, peer, at);
      }
    }
  }

  // Active rows must have arrived. An inactive row has arrived whole or is untouched; from another node it is
  // untouched (when the machine is described by TAPA_TOPOLOGY, "another node" is not ours to say, so both are
  // right).
  [[nodiscard]] std::size_t wrong_bytes(std::uint32_t seed) const override {
    std::size_t wrong = recv_.back() == poison ? 0 : 1;
    for (int peer = 0; peer < machine_.ranks; ++peer) {
      for (int row = 0; row < options_.rows; ++row) {
        const std::size_t first = static_cast<std::size_t>(row) * row_bytes_;
        std::size_t missing = 0;
        std::size_t touched = 0;
        for (std::size_t at = first; at < first + row_bytes_; ++at) {
          const std::uint8_t byte = recv_[block_at(peer) + at];
          missing += byte == pattern(seed, peer, rank_, at) ? 0U : 1U;
          touched += byte == poison ? 0U : 1U;
        }
        const bool is_active = std::binary_search(active_.begin(), active_.end(), row);
        wrong += is_active ? missing : std::min(missing, touched);
      }
    }
    return wrong;
  }

  int call_tapa(MPI_Comm comm) override {
    return TAPA_Alltoallv_select(send_.data(), at_.data(), recv_.data(), at_.data(), row_bytes_,
                                 selection_on(comm));
  }

  int call_mpi(MPI_Comm comm) override {
    for (int peer = 0; peer < machine_.ranks; ++peer) {
      copy_rows(peer, send_.data() + block_at(peer), packed_send_.data() + packed_at(peer), true);
    }
    const auto call = options_.use_mpi ? MPI_Alltoallv : PMPI_Alltoallv;
    const int code = call(packed_send_.data(), packed_counts_.data(), packed_at_.data(), MPI_CHAR,
                          packed_recv_.data(), packed_counts_.data(), packed_at_.data(), MPI_CHAR, comm);
    for (int peer = 0; peer < machine_.ranks; ++peer) {
      copy_rows(peer, recv_.data() + block_at(peer), packed_recv_.data() + packed_at(peer), false);
    }
    return code;
  }

 private:
  struct OnComm {
    MPI_Comm comm;
    TAPA_Selection selection;
  };

  [[nodiscard]] std::size_t rows() const { return static_cast<std::size_t>(options_.rows); }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(machine_.ranks); }
  [[nodiscard]] std::size_t block_at(int peer) const {
    return static_cast<std::size_t>(peer) * rows() * row_bytes_;
  }
  [[nodiscard]] std::size_t packed_at(int peer) const {
    return static_cast<std::size_t>(packed_at_[static_cast<std::size_t>(peer)]);
  }
  [[nodiscard]] bool selective(int peer) const {
    return options_.everywhere || machine_.node_of[static_cast<std::size_t>(peer)] !=
                                      machine_.node_of[static_cast<std::size_t>(rank_)];
  }

  // Between a block and its packed form, either way.
  void copy_rows(int peer, std::uint8_t* block, std::uint8_t* packed, bool pack) const {
    const auto copy = [&](std::uint8_t* in_block, std::size_t bytes) {
      std::memcpy(pack ? packed : in_block, pack ? in_block : packed, bytes);
      packed += bytes;
    };
    if (!selective(peer)) {
      copy(block, rows() * row_bytes_);
      return;
    }
    for (const int row : active_) {
      copy(block + static_cast<std::size_t>(row) * row_bytes_, row_bytes_);
    }
  }

  // Made by the first, untimed call of each size.
  TAPA_Selection selection_on(MPI_Comm comm) {
    for (const OnComm& known : selections_) {
      if (known.comm == comm) {
        return known.selection;
      }
    }
    const std::vector<int> counts(ranks(), options_.rows);
    const int active = static_cast<int>(active_.size());
    OnComm made{comm, TAPA_SELECTION_NULL};
    check(TAPA_Selection_create(counts.data(), counts.data(), &active, active_.data(), 1,
                                options_.everywhere ? "" : nullptr, comm, &made.selection),
          "TAPA_Selection_create");
    selections_.push_back(made);
    return made.selection;
  }

  const Options& options_;
  Machine machine_;
  int rank_ = 0;
  std::size_t row_bytes_ = 1;
  std::vector<int> active_;
  std::vector<MPI_Aint> at_;  // of each block, in rows
  std::vector<int> packed_counts_, packed_at_;
  std::vector<std::uint8_t> send_, recv_, packed_send_, packed_recv_;
  std::vector<OnComm> selections_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_latency(
      {Kind::select, "tapa_alltoall_select", "Selective All-to-All Latency Test",
       "coll_tuned_alltoallv_algorithm",
       [](MPI_Comm comm, const Options& options) { return std::make_unique<Select>(comm, options); }},
      argc, argv);
}
