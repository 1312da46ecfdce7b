/// @file
/// What a benchmark times: one flavour of all-to-all over buffers of its own.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tapa::bench {

class NcclRival;

/// Called by all ranks alike. Calls return MPI error codes.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Makes buffers and counts for blocks of `bytes` (on average, where blocks differ), filled with fill(0).
  /// Collective.
  virtual void resize(std::size_t bytes) = 0;

  /// Frees what calls have made on communicators (persistent requests, selections). Collective.
  virtual void release() {}

  /// Bytes of the block from src to dst that have to travel between nodes.
  [[nodiscard]] virtual std::size_t block_bytes(int src, int dst) const = 0;

  /// Mean size of this rank's send blocks, by which the library chooses a plan.
  [[nodiscard]] virtual std::size_t mean_bytes() const = 0;

  /// Writes the data of `seed` into the send blocks and poisons the receive buffer.
  virtual void fill(std::uint32_t seed) = 0;

  /// Number of bytes of the receive buffer that are not as they must be after a call that followed
  /// fill(seed).
  [[nodiscard]] virtual std::size_t wrong_bytes(std::uint32_t seed) const = 0;

  virtual int call_tapa(MPI_Comm comm) = 0;
  virtual int call_mpi(MPI_Comm comm) = 0;

  /// With buffers in GPU memory: NCCL's call. load() copies what fill() wrote to the buffers of its own that
  /// it may have. Precondition: --versus nccl was taken.
  virtual void load(NcclRival&) {}
  virtual void call_nccl(NcclRival&) {}
};

/// Byte `at` of the block from src to dst in the data of `seed`.
[[nodiscard]] inline std::uint8_t pattern(std::uint32_t seed, int src, int dst, std::size_t at) {
  const auto mixed = (static_cast<std::uint64_t>(seed) << 40) + (static_cast<std::uint64_t>(src) << 20) +
                     static_cast<std::uint64_t>(dst);
  const std::uint64_t block = mixed * 0x9e3779b97f4a7c15U;
  return static_cast<std::uint8_t>((block >> 56) + (at * 167) + (at >> 8));
}

constexpr std::uint8_t poison = 0xa5;  ///< what a receive buffer holds before the call

/// Aborts the job with the error's text when `code` is not MPI_SUCCESS.
void check(int code, const std::string& what);

}  // namespace tapa::bench
