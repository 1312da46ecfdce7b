/// The kernels of the device codecs.
#pragma once

#include <cuda_runtime_api.h>

#include "wire/device/code_job.hpp"
#include "wire/device/loss_lanes.hpp"
#include "wire/device/row_choice.hpp"

namespace dit {

/// After what is in the stream; does not wait.
[[nodiscard]] cudaError_t launch_codec(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs,
                                       cudaStream_t stream);

[[nodiscard]] cudaError_t launch_rows(RowWork work, const RowChoices& choices, cudaStream_t stream);

[[nodiscard]] cudaError_t launch_losses(const LossJobs& losses, cudaStream_t stream);

/// A kernel, and the bytes of room that it wants for each team: a warp.
struct CodeKernel {
  void (*function)(CodeJobs);
  std::size_t room;
};
inline constexpr std::uint32_t kCodeWarps = 4;  // of a block
[[nodiscard]] CodeKernel any_kernel(CodeWork work, LaneFormat format, bool remembers);
[[nodiscard]] CodeKernel fp16_kernel(CodeWork work, LaneFormat format, bool remembers);
[[nodiscard]] CodeKernel bf16_kernel(CodeWork work, LaneFormat format, bool remembers);
/// To encode and decode fp8.
[[nodiscard]] CodeKernel one_row_kernel(CodeWork work, bool remembers);

/// Have kernels loaded on the current device, which else happens when one is first used and may wait for it.
[[nodiscard]] cudaError_t load_codecs();
[[nodiscard]] cudaError_t load_row_kernels();
[[nodiscard]] cudaError_t load_loss_kernels();

}  // namespace dit
