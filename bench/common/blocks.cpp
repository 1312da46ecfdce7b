#include "blocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu.hpp"
#include "tapa/tapa.h"

namespace tapa::bench {

void Buffer::free() {
  if (place_ == Place::gpu) {
    free_on_gpu(data_);
  } else if (place_ == Place::registered && data_ != nullptr) {
    TAPA_Free(data_);
  } else {
    delete[] data_;
  }
  data_ = nullptr;
}

void Buffer::resize(std::size_t bytes) {
  free();
  if (place_ == Place::gpu) {
    data_ = allocate_on_gpu(bytes);
  } else if (place_ == Place::registered) {
    void* memory = nullptr;
    check(TAPA_Alloc(static_cast<MPI_Aint>(bytes), &memory), "TAPA_Alloc");
    data_ = static_cast<std::uint8_t*>(memory);
  } else {
    data_ = new std::uint8_t[bytes];
  }
  size_ = bytes;
}

namespace {

Place place_of(const Options& options, bool registered) {
  if (options.on_gpu) return Place::gpu;
  return registered ? Place::registered : Place::user;
}

}  // namespace

BlockExchange::BlockExchange(MPI_Comm comm, const Options& options)
    : options_(options),
      send_(place_of(options, options.registered)),
      recv_(place_of(options, options.registered && options.in_place)) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &ranks_);
}

std::size_t BlockExchange::block_bytes(int src, int dst) const {
  const auto ranks = static_cast<std::size_t>(ranks_);
  if (options_.shape == Shape::half && ranks > 1)
    return src == 0 ? bytes_ * ranks / 2 : bytes_ * ranks / (2 * (ranks - 1));
  const std::size_t few = std::min<std::size_t>(2, ranks);
  if (options_.shape == Shape::to_few || options_.shape == Shape::from_few)
    return static_cast<std::size_t>(options_.shape == Shape::to_few ? dst : src) < few ? bytes_ * ranks / few
                                                                                       : 0;
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
  if (options_.on_gpu) {
    on_host_send_.assign(send_.size(), 0);
    on_host_recv_.assign(recv_.size(), 0);
  } else {
    std::memset(send_.data(), 0, send_.size());
  }
  fill(0);
}

void BlockExchange::fill(std::uint32_t seed) {
  std::uint8_t* const send = options_.on_gpu ? on_host_send_.data() : send_.data();
  std::uint8_t* const recv = options_.on_gpu ? on_host_recv_.data() : recv_.data();
  std::memset(recv, poison, recv_.size());
  std::uint8_t* const from = options_.in_place ? recv : send;
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    for (std::size_t at = 0; at < static_cast<std::size_t>(send_counts_[p]); ++at) {
      from[static_cast<std::size_t>(send_at_[p]) + at] = pattern(seed, rank_, peer, at);
    }
  }
  received_ = recv_.data();
  if (!options_.on_gpu) return;
  copy_any(send_.data(), send, send_.size());
  copy_any(recv_.data(), recv, recv_.size());
}

std::size_t BlockExchange::wrong_bytes(std::uint32_t seed) const {
  const std::uint8_t* recv = received_;
  std::vector<std::uint8_t> on_host;
  if (options_.on_gpu) {
    on_host.resize(recv_.size());
    copy_any(on_host.data(), received_, recv_.size() - (received_ == recv_.data() ? 0 : 1));
    recv = on_host.data();
  }
  // The byte behind the last block.
  std::size_t wrong = received_ != recv_.data() || recv[recv_.size() - 1] == poison ? 0 : 1;
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto p = static_cast<std::size_t>(peer);
    for (std::size_t at = 0; at < static_cast<std::size_t>(recv_counts_[p]); ++at) {
      wrong += recv[static_cast<std::size_t>(recv_at_[p]) + at] == pattern(seed, peer, rank_, at) ? 0U : 1U;
    }
  }
  return wrong;
}

void BlockExchange::load(NcclRival& nccl) {
  if (nccl.send() == nullptr) return;
  copy_any(nccl.send(), send_.data(), send_.size() - 1);
  copy_any(nccl.recv(), recv_.data(), recv_.size() - 1);
}

void BlockExchange::call_nccl(NcclRival& nccl) {
  const std::uint8_t* const from = nccl.send() != nullptr ? nccl.send() : send_.data();
  std::uint8_t* const to = nccl.recv() != nullptr ? nccl.recv() : recv_.data();
  received_ = to;
  if (options_.shape == Shape::even && options_.imbalance <= 0) {
    nccl.alltoall(from, to, bytes_);
  } else {
    nccl.alltoallv(from, send_counts_.data(), send_at_.data(), to, recv_counts_.data(), recv_at_.data());
  }
}

}  // namespace tapa::bench
