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

/// Where a buffer is: memory of the user's, of TAPA_Alloc, of a GPU.
enum class Place { user, registered, gpu };

/// Memory, never null once resized. That of a GPU is only for copies.
class Buffer {
 public:
  explicit Buffer(Place place) : place_(place) {}
  ~Buffer() { free(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void resize(std::size_t bytes);
  [[nodiscard]] std::uint8_t* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void free();
  Place place_;
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
  void load(NcclRival& nccl) override;
  void call_nccl(NcclRival& nccl) override;

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
  const std::uint8_t* received_ = nullptr;                 ///< where the last call's data are
  std::vector<std::uint8_t> on_host_send_, on_host_recv_;  ///< what buffers on a GPU are filled with
};

}  // namespace tapa::bench
