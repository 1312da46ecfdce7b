/// @file
/// NCCL as a rival: its all-to-all in its default way and without thread blocks (copy engines, symmetric
/// windows). Loaded when the program runs; built without its header it is never there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace tapa::bench {

/// Who takes part, and how they tell each other bytes of the host: however they were started.
struct Launch {
  int rank;
  int size;
  std::function<void(const void* mine, void* all, std::size_t bytes)> allgather;
};

class Nccl {
 public:
  enum class Policy { standard, zero_cta };

  virtual ~Nccl() = default;
  /// Buffers of the largest size, in the memory that this policy asks for.
  [[nodiscard]] virtual char* send() const = 0;
  [[nodiscard]] virtual char* receive() const = 0;
  virtual void alltoall(std::size_t block, cudaStream_t stream) = 0;
  /// From and to other buffers, with the default policy.
  virtual void alltoall(const void* from, void* to, std::size_t block, cudaStream_t stream) = 0;
  /// Blocks of any sizes, by sends and receives in one group; arrays of bytes, an entry for each rank.
  struct Blocks {
    const int* bytes;
    const int* displs;
  };
  virtual void alltoallv(const void* from, const Blocks& sent, void* to, const Blocks& received,
                         cudaStream_t stream) = 0;

  /// Version of the library that is loaded; "" without one.
  static std::string version(const std::string& library);
  /// Null, and why on rank 0's stderr, where NCCL or this policy cannot be used. Collective.
  static std::unique_ptr<Nccl> make(const Launch& launch, const std::string& library, Policy policy,
                                    std::size_t bytes);
};

}  // namespace tapa::bench
