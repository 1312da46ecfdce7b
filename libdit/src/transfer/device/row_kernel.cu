#include <algorithm>
#include <cstdint>

#include "transfer/device/row_kernel.hpp"

namespace dit {
namespace {

constexpr int kThreads = 256;
constexpr int kBatch = 4;      // units of a thread whose loads are under way before its first store
constexpr int kCopies = 32;    // of a launch: they are its argument
constexpr unsigned kBlocks = 1024;

struct CopyList {
  RowCopy copies[kCopies];
};

template <class Unit, bool gather>
__global__ void __launch_bounds__(kThreads) move_rows(const __grid_constant__ CopyList list, const std::byte* from,
                                                      std::byte* to) {
  const RowCopy& copy = list.copies[blockIdx.y];
  const std::size_t row_units = copy.row_bytes / sizeof(Unit);
  const std::size_t units = copy.rows * row_units;
  const std::byte* const source = from + (gather ? copy.tensor : copy.buffer);
  std::byte* const target = to + (gather ? copy.buffer : copy.tensor);
  const std::size_t source_stride = gather ? copy.tensor_stride : copy.buffer_stride;
  const std::size_t target_stride = gather ? copy.buffer_stride : copy.tensor_stride;
  const bool small = units <= UINT32_MAX;
  for (std::size_t begin = std::size_t{blockIdx.x} * kThreads * kBatch + threadIdx.x; begin < units;
       begin += std::size_t{gridDim.x} * kThreads * kBatch) {
    Unit held[kBatch];
    std::byte* places[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const std::size_t unit = begin + static_cast<std::size_t>(b) * kThreads;
      if (unit >= units) continue;
      const std::size_t row = small ? static_cast<std::uint32_t>(unit) / static_cast<std::uint32_t>(row_units)
                                    : unit / row_units;
      const std::size_t within = (unit - row * row_units) * sizeof(Unit);
      held[b] = *reinterpret_cast<const Unit*>(source + row * source_stride + within);
      places[b] = target + row * target_stride + within;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (begin + static_cast<std::size_t>(b) * kThreads < units) *reinterpret_cast<Unit*>(places[b]) = held[b];
    }
  }
}

template <class Unit, bool gather>
cudaError_t launch(const RowCopy* copies, std::size_t count, const std::byte* from, std::byte* to,
                   cudaStream_t stream) {
  for (std::size_t done = 0; done < count; done += kCopies) {
    CopyList list;
    const std::size_t now = std::min<std::size_t>(kCopies, count - done);
    std::copy_n(copies + done, now, list.copies);
    std::size_t longest = 0;
    for (std::size_t i = 0; i < now; ++i)
      longest = std::max(longest, list.copies[i].rows * (list.copies[i].row_bytes / sizeof(Unit)));
    const auto blocks = static_cast<unsigned>(
        std::clamp<std::size_t>((longest + kThreads * kBatch - 1) / (kThreads * kBatch), 1, kBlocks));
    move_rows<Unit, gather>
        <<<dim3(blocks, static_cast<unsigned>(now)), kThreads, 0, stream>>>(list, from, to);
    const cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

/// In the widest units that all addresses and lengths allow.
template <bool gather>
cudaError_t move(const std::vector<RowCopy>& copies, const std::byte* from, std::byte* to, cudaStream_t stream) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to);
  for (const RowCopy& copy : copies)
    bits |= copy.tensor | copy.tensor_stride | copy.buffer | copy.buffer_stride | copy.row_bytes;
  if (bits % 16 == 0) return launch<uint4, gather>(copies.data(), copies.size(), from, to, stream);
  if (bits % 8 == 0) return launch<std::uint64_t, gather>(copies.data(), copies.size(), from, to, stream);
  if (bits % 4 == 0) return launch<std::uint32_t, gather>(copies.data(), copies.size(), from, to, stream);
  if (bits % 2 == 0) return launch<std::uint16_t, gather>(copies.data(), copies.size(), from, to, stream);
  return launch<std::uint8_t, gather>(copies.data(), copies.size(), from, to, stream);
}

}  // namespace

cudaError_t gather_rows(const std::vector<RowCopy>& copies, const std::byte* tensor, std::byte* buffer,
                        cudaStream_t stream) {
  return move<true>(copies, tensor, buffer, stream);
}

cudaError_t scatter_rows(const std::vector<RowCopy>& copies, const std::byte* buffer, std::byte* tensor,
                         cudaStream_t stream) {
  return move<false>(copies, buffer, tensor, stream);
}

}  // namespace dit
