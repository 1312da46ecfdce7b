/// @file
/// The device codecs' kernels, run on the host as they are launched.
#pragma once

#include "host_warp.hpp"
#include "wire/device/code_launcher.hpp"

namespace dit {

class HostLauncher final : public CodeLauncher {
 public:
  void launch(CodeWork work, LaneFormat format, bool remembers, const CodeJobs& jobs,
              void* /*stream*/) override {
    run_on_host(work, format, remembers, jobs);
  }
  void launch(RowWork work, const RowChoices& choices, void* /*stream*/) override {
    run_on_host(work, choices);
  }
  void launch(const LossJobs& losses, void* /*stream*/) override { run_on_host(losses); }
};

}  // namespace dit
