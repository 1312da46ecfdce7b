#include "blocks.hpp"

#include <cmath>
#include <cstring>

#include "tapa/tapa.h"

namespace tapa::bench {

void Buffer::free() {
  if (registered_ && data_ != nullptr) {
    TAPA_Free(data_);
  } else {
    delete[] data_;
  }
  data_ = nullptr;
}

void Buffer::resize(std::size_t bytes) {
  free();
  if (registered_) {
    void* memory = nullptr;
    check(TAPA_Alloc(static_cast<MPI_Aint>(bytes), &memory), "TAPA_Alloc");
    data_ = static_cast<std::uint8_t*>(memory);
  } else {
    data_ = new std::uint8_t[bytes];
  }
  size_ = bytes;
}

BlockExchange::BlockExchange(MPI_Comm comm, const Options& options)
    : options_(options), send_(options.registered), recv_(options.registered && options.in_place) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &ranks_);
}

std::size_t BlockExchange::block_bytes(int src, int dst) const {
  const auto ranks = static_cast<std::size_t>(ranks_);
  if (options_.shape == Shape::half && ranks > 1)
    return src == 0 ? bytes_ * ranks / 2 : bytes_ * ranks / (2 * (ranks - 1));
  if (options_.shape == Shape::sparse) return pattern(3, src, dst, 0) % 10 == 0 ? 10 * bytes_ : 0;
  if (options_.imbalance <= 0) {
    return bytes_;
  }
  const double unit = pattern(7, src, dst, 0) / 255.0;  // 0 .. 1, known to both ends
  const double bytes = static_cast<double>(bytes_) * (1 + options_.imbalance * (2 * unit - 1));
  return static_cast<std::size_t>(std::lround(bytes));
}

void BlockExchange::resize(std::size_t bytes) {
  bytes_ = bytes;
  std::size_t sent = 0;
  std::size_t received = 0;
  for (std::vector<int>* v : {&send_counts_, &send_at_, &recv_counts_, &recv_at_}) {
    v->clear();
  }
  for (int peer = 0; peer < ranks_; ++peer) {
    send_at_.push_back(static_cast<int>(sent));
    recv_at_.push_back(static_cast<int>(received));
    send_counts_.push_back(static_cast<int>(block_bytes(rank_, peer)));
    recv_counts_.push_back(static_cast<int>(block_bytes(peer, rank_)));
    sent += block_bytes(rank_, peer);
    received += block_bytes(peer, rank_);
  }
  // At least one byte each, so that no pointer is null.
  send_.resize(sent + 1);
  recv_.resize(received + 1);
  std::memset(send_.data(), 0, send_.size());
  fill(0);
}

void BlockExchange::fill(std::uint32_t seed) {
  std::memset(recv_.data(), poison, recv_.size());
  const Buffer& from = options_.in_place ? recv_ : send_;
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    for (std::size_t at = 0; at < static_cast<std::size_t>(send_counts_[p]); ++at) {
      from[static_cast<std::size_t>(send_at_[p]) + at] = pattern(seed, rank_, peer, at);
    }
  }
}

std::size_t BlockExchange::wrong_bytes(std::uint32_t seed) const {
  std::size_t wrong = recv_[recv_.size() - 1] == poison ? 0 : 1;  // the byte behind the last block
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    for (std::size_t at = 0; at < static_cast<std::size_t>(recv_counts_[p]); ++at) {
      wrong += recv_[static_cast<std::size_t>(recv_at_[p]) + at] == pattern(seed, peer, rank_, at) ? 0U : 1U;
    }
  }
  return wrong;
}

}  // namespace tapa::bench
