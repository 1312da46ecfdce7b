/// @file
/// Buffers in GPU memory and NCCL, for -d cuda. Where the programs are built without CUDA, why_no_gpu() says
/// so and nothing else is called.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "options.hpp"

namespace tapa::bench {

/// Makes the GPU of the rank's number on its node this process's: ranks take the GPUs in turn. Why that
/// cannot be; "" when it is done. Collective; alike on all ranks.
[[nodiscard]] std::string take_gpu(MPI_Comm comm);

/// Whether MPI says that it takes buffers in GPU memory.
[[nodiscard]] bool mpi_takes_gpu_memory();

/// GPU memory. Copies wait until they are done. CUDA's errors end the job.
std::uint8_t* allocate_on_gpu(std::size_t bytes);
void free_on_gpu(void* memory);
void copy_any(void* to, const void* from, std::size_t bytes);

/// NCCL's all-to-all, blocking as MPI's: the data are there when a call returns.
class NcclRival {
 public:
  virtual ~NcclRival() = default;
  /// Null, and why on rank 0's stderr, where it cannot be had. `zero_cta`: by copy engines, from and to
  /// buffers of its own of `bytes` bytes. Collective.
  static std::unique_ptr<NcclRival> make(MPI_Comm comm, const std::string& library, bool zero_cta,
                                         std::size_t bytes);
  /// The own buffers of a zero-CTA one; else null.
  [[nodiscard]] virtual std::uint8_t* send() const = 0;
  [[nodiscard]] virtual std::uint8_t* recv() const = 0;
  virtual void alltoall(const void* send, void* recv, std::size_t bytes) = 0;
  virtual void alltoallv(const void* send, const int* sendbytes, const int* sdispls, void* recv,
                         const int* recvbytes, const int* rdispls) = 0;
};

}  // namespace tapa::bench
