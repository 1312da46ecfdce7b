#include "wire/device/code_kernel.cuh"

namespace dit {

CodeKernel any_kernel(CodeWork work, LaneFormat format, bool remembers) {
  return kernel_of<JobKind::any>(work, format, remembers);
}

}  // namespace dit
