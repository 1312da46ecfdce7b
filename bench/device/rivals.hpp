/// @file
/// The ways that device_alltoall compares, and what they need.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "nccl.hpp"

namespace tapa::bench {

/// Something that moves all blocks of a buffer.
struct Way {
  std::string name;
  std::function<void(std::size_t block, cudaStream_t)> call;
  const char* send;
  const char* receive;
  bool own_block = true;  ///< whether it moves the rank's own block too
  /// How the blocks for and from a rank lie in the buffers; none: one behind the other.
  std::function<TAPA_Device_block(std::size_t block, int peer)> source, sink;

  [[nodiscard]] TAPA_Device_block source_of(std::size_t block, int peer) const {
    return source ? source(block, peer) : behind(block, peer);
  }
  [[nodiscard]] TAPA_Device_block sink_of(std::size_t block, int peer) const {
    return sink ? sink(block, peer) : behind(block, peer);
  }
  /// Blocks one behind the other.
  static TAPA_Device_block behind(std::size_t block, int peer) {
    return {static_cast<std::size_t>(peer) * block, block, 1, 0, 1, 0};
  }
};

struct Settings {
  std::vector<std::size_t> sizes;
  std::vector<std::string> ways, modes;
  int rounds;
  std::size_t row;  ///< bytes of the rows of strided blocks, at most
  double seconds;
  std::string nccl, json;
  TAPA_Device_options options{};
};

/// Other ranks' receive buffers, mapped.
class Peers {
 public:
  Peers(Ranks& ranks, void* receive) {
    cudaIpcMemHandle_t mine{};
    cuda(cudaIpcGetMemHandle(&mine, receive), "cudaIpcGetMemHandle");
    const auto handles = ranks.gather(mine);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      void* mapped = nullptr;
      if (rank != ranks.rank()) {
        cuda(cudaIpcOpenMemHandle(&mapped, handles[static_cast<std::size_t>(rank)],
                                  cudaIpcMemLazyEnablePeerAccess),
             "cudaIpcOpenMemHandle");
      }
      mapped_.push_back(static_cast<char*>(mapped));
    }
  }
  [[nodiscard]] char* of(int rank) const { return mapped_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<char*> mapped_;
};

/// All ways of a run and what they need.
class Rivals {
 public:
  /// Collective.
  Rivals(Ranks& ranks, const Settings& settings);
  ~Rivals() {
    for (const int window : windows_) (void)TAPA_Device_deregister(comm_.get(), window);
  }
  Rivals(const Rivals&) = delete;
  Rivals& operator=(const Rivals&) = delete;

  [[nodiscard]] const std::vector<Way>& ways() const { return ways_; }

 private:
  void add(const Settings& settings, Way way);
  /// Scatter heads and gather heads: blocks whose rows are side by side in the send or the receive buffer.
  void add_strided(const Settings& settings);
  TAPA_Device_block beside(std::size_t block, int peer) const;
  /// What the link gives: each rank copies its blocks to the others, without telling them.
  void copy(std::size_t block, cudaStream_t stream);
  /// The same into rows beside each other.
  void copy_rows(std::size_t block, cudaStream_t stream);

  Ranks& ranks_;
  std::size_t row_;
  std::size_t most_;
  Memory send_, symmetric_, direct_, staged_;
  Comm comm_;
  Peers peers_;
  int windows_[2] = {-1, -1};
  std::vector<std::unique_ptr<Nccl>> nccls_;
  std::vector<Way> ways_;
};

}  // namespace tapa::bench
