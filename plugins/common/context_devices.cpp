// Device memory in a context: what all ranks do on the host before it is put on streams.
#include "common/agree.hpp"
#include "common/context.hpp"
#include "exchange/check_call.hpp"
#include "exchange/select_rows.hpp"

namespace dit {
namespace {

void require_known_memory(int memory_kind, int device, const void* memory, std::size_t bytes) {
  if (memory_kind != DIT_MEMORY_HOST && memory_kind != DIT_MEMORY_CUDA)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, "memory_kind is " + std::to_string(memory_kind) + " (" +
                                                   memory_kind_name(memory_kind) +
                                                   "), expected 0 (host) or 1 (cuda)");
  if (device < 0)
    throw PluginFailure(DIT_ERROR_ARGUMENT, "device is " + std::to_string(device) + ", expected 0 or more");
  if ((memory == nullptr) != (bytes == 0))
    throw PluginFailure(DIT_ERROR_ARGUMENT, std::string("pointer is ") +
                                                (memory == nullptr ? "null" : "not null") + " and bytes is " +
                                                std::to_string(bytes) +
                                                ", expected both or none of memory and bytes");
}

}  // namespace

// All ranks throw when one does: what is wrong with a device is told before anything is put on it.
void MpiContext::open_devices(int device) {
  if (!devices_.is_open()) wait_for_starts();
  devices_.open(comm_, device);
}

dit_request* MpiContext::start_on_device(const dit_exchange_call& call) {
  const bool strided = call.send_strided != nullptr || call.recv_strided != nullptr;
  if (strided && (kind_.capabilities & DIT_CAPABILITY_DEVICE_STRIDED) == 0)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, check_not_strided(call, kind_.name));
  if (call.selection != nullptr)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, std::string("plugin ") + kind_.name +
                                                   " selects no rows of device memory, call.selection is not "
                                                   "null");
  open_devices(call.device);
  const auto begun = Clock::now();
  dit_request* const request = devices_.start(call);
  const Lock lock(mutex_);
  count_sent(call, place(), totals_);
  ++totals_.exchanges;
  if ((call.flags & DIT_EXCHANGE_BLOCKING) != 0)
    totals_.wait_seconds += std::chrono::duration<double>(Clock::now() - begun).count();
  return request;
}

void MpiContext::wait_stream(dit_request* request, void* stream) {
  if (!devices_.holds(request))
    throw PluginFailure(DIT_ERROR_ARGUMENT,
                        "request is of no exchange of device memory of this context, expected one");
  devices_.wait_stream(*request, stream);
}

dit_memory* MpiContext::register_memory(void* memory, std::size_t bytes, int memory_kind, int device) {
  require_good();
  wait_for_starts();
  together(comm_, [&] { require_known_memory(memory_kind, device, memory, bytes); });
  int kinds[2] = {memory_kind, -memory_kind};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, kinds, 2, MPI_INT, MPI_MAX, comm_), "MPI_Allreduce");
  if (kinds[0] != -kinds[1])
    throw PluginFailure(DIT_ERROR_ARGUMENT, "memory_kind is " + std::to_string(memory_kind) + " on rank " +
                                                std::to_string(rank_) + ", expected the same on all ranks");
  if (memory_kind == DIT_MEMORY_HOST) return new dit_memory;
  if (!devices_.is_open()) open_devices(device);
  return devices_.add_memory(memory, bytes, device);
}

void MpiContext::unregister_memory(const dit_memory& memory) {
  devices_.remove_memory(memory);
}

void MpiContext::close_devices() {
  try {
    devices_.close();
  } catch (const PluginFailure& failure) {
    const Lock lock(mutex_);
    failed_ = failure.status();
    throw;
  }
}

}  // namespace dit
