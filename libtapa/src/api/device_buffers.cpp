#include "api/device_buffers.hpp"

#include "api/check_arguments.hpp"
#include "run/device_memory.hpp"
#include "run/error.hpp"
#include "world/device_support.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

/// Whether a block lies in GPU memory. As long as no GPU was seen in use, buffers that were looked at in this
/// thread's last call are not looked at again; null ones stand for addresses.
bool on_device(const Arguments& a, int ranks) {
  struct Buffers {
    const void* send;
    const void* recv;
  };
  thread_local constinit Buffers in_host{};
  const bool known = !gpu_was_in_use() && a.send.buffer == in_host.send && a.recv.buffer == in_host.recv;
  if (known && in_host.send != nullptr && in_host.recv != nullptr) return false;
  in_host = {a.send.buffer, a.recv.buffer};
  if (!gpu_in_use() || !has_device_memory(a, ranks)) return false;
  if (gpu_use() != GpuUse::cuda) require_host_memory(a, ranks);
  return true;
}

/// By this process's environment and MPI; what a communicator's ranks agree on is in its state.
bool mpi_takes_it_here() {
  static const bool takes = [] {
    try {
      const Options options = environment_options();
      const Settings& s = options.settings();
      if (s.gpu == GpuBuffers::mpi || s.gpu == GpuBuffers::host) return true;
      if (s.gpu == GpuBuffers::stage) return false;
      return s.gpu_mpi == GpuMpi::automatic ? mpi_takes_device_memory() : s.gpu_mpi == GpuMpi::yes;
    } catch (const CallError&) {
      return mpi_takes_device_memory();
    }
  }();
  return takes;
}

}  // namespace

CallWay way_of_call(const Arguments& arguments, CommState& state) {
  const auto local = [&] { return on_device(arguments, state.size()) ? CallWay::stage : CallWay::host; };
  if (DeviceCalls* const calls = state.device_calls()) {
    const CallWay way = calls->agree(arguments, state.device_way().mpi_takes, state.waiter());
    return way == CallWay::stage ? local() : way;
  }
  return state.trusts_buffers() ? CallWay::host : local();
}

void run_on_device(const Arguments& arguments, CommState& state) {
  const double began = PMPI_Wtime();
  DeviceCalls& calls = *state.device_calls();
  calls.run(arguments);
  if (state.options()->settings().report == Reporting::off) return;
  const std::size_t bytes = calls.bytes_sent();
  state.parts()->report.count(arguments.function, bytes / static_cast<std::size_t>(state.size()), "device",
                              {}, bytes, PMPI_Wtime() - began, std::nullopt);
}

std::unique_ptr<StagedCall> staged_call(const Arguments& arguments, CommState& state) {
  if (state.trusts_buffers() || !on_device(arguments, state.size())) return nullptr;
  return std::make_unique<StagedCall>(arguments, state.size(), *cuda_driver());
}

bool must_stage_for_mpi(const Arguments& arguments, int peers) {
  return gpu_use() == GpuUse::cuda && !mpi_takes_it_here() && has_device_memory(arguments, peers);
}

}  // namespace tapa
