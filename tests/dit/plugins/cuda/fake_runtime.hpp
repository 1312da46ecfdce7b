/// The few functions of the CUDA runtime that exchanges call, without a device: they write down which stream
/// waits for whose event.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace fake {

struct Runtime {
  std::map<cudaStream_t, unsigned long long> captures;  ///< of the streams that are captured
  std::map<cudaEvent_t, cudaStream_t> recorded;
  std::vector<std::pair<cudaStream_t, cudaStream_t>> waits;  ///< who, and for whom
  int device = 0;
  bool passes = true;  ///< what an event says
};

[[nodiscard]] Runtime& runtime();
[[nodiscard]] inline cudaStream_t stream(int number) {
  return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(number));
}

}  // namespace fake
