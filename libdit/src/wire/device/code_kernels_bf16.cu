#include "wire/device/code_kernel.cuh"

namespace dit {

CodeKernel bf16_kernel(CodeWork work, LaneFormat format, bool remembers) {
  return kernel_of<JobKind::plain_bf16>(work, format, remembers);
}

CodeKernel one_row_kernel(CodeWork work, bool remembers) {
  constexpr LaneFormat kFp8 = LaneFormat::fp8;
  constexpr JobKind kOne = JobKind::one_row;
  if (work == CodeWork::encode) {
    return remembers ? code_kernel<CodeWork::encode, kFp8, true, kOne>()
                     : code_kernel<CodeWork::encode, kFp8, false, kOne>();
  }
  return remembers ? code_kernel<CodeWork::decode, kFp8, true, kOne>()
                   : code_kernel<CodeWork::decode, kFp8, false, kOne>();
}

}  // namespace dit
