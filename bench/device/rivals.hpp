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
};

struct Settings {
  std::vector<std::size_t> sizes;
  std::vector<std::string> ways, modes;
  int rounds;
  double seconds;
  std::string nccl, json, nodes;
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
  [[nodiscard]] const char* description() const { return described(comm_.get()); }

 private:
  void add(const Settings& settings, Way way);
  /// What the link gives: each rank copies its blocks to the others, without telling them.
  void copy(std::size_t block, cudaStream_t stream);

  Ranks& ranks_;
  std::size_t most_;
  Memory send_, symmetric_, direct_, staged_;
  Comm comm_;
  Peers peers_;
  int windows_[2] = {-1, -1};
  std::vector<std::unique_ptr<Nccl>> nccls_;
  std::vector<Way> ways_;
};

}  // namespace tapa::bench
