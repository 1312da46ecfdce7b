#include "wire/device/code_kernel.cuh"

namespace dit {

CodeKernel fp16_kernel(CodeWork work, LaneFormat format, bool remembers) {
  return kernel_of<JobKind::plain_fp16>(work, format, remembers);
}

}  // namespace dit
