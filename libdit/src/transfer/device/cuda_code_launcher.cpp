#include "transfer/device/cuda_memory.hpp"
#include "transfer/device/device_coder.hpp"
#include "wire/device/code_kernels.hpp"

namespace dit {
namespace {

class CudaCodeLauncher final : public CodeLauncher {
 public:
  /// Loads the kernels: later that might wait for exchanges that are under way.
  CudaCodeLauncher() {
    check_cuda(load_codecs(), "loading codec kernels");
    check_cuda(load_row_kernels(), "loading row kernels");
    check_cuda(load_loss_kernels(), "loading loss kernels");
  }

  void launch(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs, void* stream) override {
    check_cuda(launch_codec(work, format, remembers, jobs, static_cast<cudaStream_t>(stream)),
               "codec kernel");
  }
  void launch(RowWork work, const RowChoices& choices, void* stream) override {
    check_cuda(launch_rows(work, choices, static_cast<cudaStream_t>(stream)), "row kernel");
  }
  void launch(const LossJobs& losses, void* stream) override {
    check_cuda(launch_losses(losses, static_cast<cudaStream_t>(stream)), "loss kernel");
  }
};

}  // namespace

CodeLauncher& cuda_code_launcher() {
  static CudaCodeLauncher launcher;
  return launcher;
}

}  // namespace dit
