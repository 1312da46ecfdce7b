/// @file
/// Buffers of an all-to-all of bytes: shared by the benchmarks whose blocks lie one after the other.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange.hpp"
#include "options.hpp"

namespace tapa::bench {

/// Memory of the user's or of TAPA_Alloc, never null once resized.
class Buffer {
 public:
  explicit Buffer(bool registered) : registered_(registered) {}
  ~Buffer() { free(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void resize(std::size_t bytes);
  [[nodiscard]] std::uint8_t* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::uint8_t& operator[](std::size_t at) const { return data_[at]; }

 private:
  void free();
  bool registered_;
  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Blocks of chars, contiguous in rank order, in one send and one receive buffer. With options.imbalance f
/// each block has (1 - f) to (1 + f) times the size, decided by its source and destination; see Shape too.
class BlockExchange : public Exchange {
 public:
  BlockExchange(MPI_Comm comm, const Options& options);

  void resize(std::size_t bytes) override;
  [[nodiscard]] std::size_t block_bytes(int src, int dst) const override;
  [[nodiscard]] std::size_t mean_bytes() const override { return bytes_; }
  void fill(std::uint32_t seed) override;
  [[nodiscard]] std::size_t wrong_bytes(std::uint32_t seed) const override;

 protected:
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const std::uint8_t* sent_bytes() const { return send_.data(); }
  [[nodiscard]] const void* send() const { return options_.in_place ? MPI_IN_PLACE : send_.data(); }
  [[nodiscard]] void* recv() { return recv_.data(); }
  [[nodiscard]] int count() const {
    return static_cast<int>(bytes_);
  }  ///< chars per block when all are alike
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  std::vector<int> send_counts_, send_at_, recv_counts_, recv_at_;  ///< chars

 private:
  const Options& options_;
  int rank_ = 0;
  int ranks_ = 0;
  std::size_t bytes_ = 0;
  Buffer send_, recv_;
};

}  // namespace tapa::bench
