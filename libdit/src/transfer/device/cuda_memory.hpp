/// CUDA memory as transfers use it: allocated here, packed and unpacked by kernels on the caller's stream.
#pragma once

#include <cuda_runtime_api.h>

#include "exchange/current_device.hpp"
#include "transfer/transfer_memory.hpp"

namespace dit {

/// Of the current device.
[[nodiscard]] const TransferMemory& cuda_memory();

/// Throws ExchangeError unless the code is cudaSuccess: DIT_ERROR_MEMORY where there is none left,
/// DIT_ERROR_UNSUPPORTED without a driver or a GPU, else DIT_ERROR_COMMUNICATION. Clears CUDA's last error.
void check_cuda(cudaError_t code, const char* function);

using CurrentCudaDevice = CurrentDeviceOf<check_cuda>;

}  // namespace dit
