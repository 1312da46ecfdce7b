// Device memory in a context: what all ranks do on the host before it is put on streams.
#include "common/agree.hpp"
#include "common/context.hpp"
#include "common/device_arguments.hpp"
#include "exchange/select_rows.hpp"

namespace dit {

// All ranks throw when one does: what is wrong with a device is told before anything is put on it.
void MpiContext::open_devices(int device) {
  if (!devices_.is_open()) wait_for_starts();
  devices_.open(device, [&](const DeviceSettings& settings) {
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(comm_, &comm), "MPI_Comm_dup");
    std::unique_ptr<MpiRanks> ranks;
    std::unique_ptr<DeviceExchange> exchange;
    try {
      MpiRanks all(comm);
      together(all, [&] {
        ranks = std::make_unique<MpiRanks>(comm);
        exchange = kind_.make_device(*ranks, kind_.read(settings_.config.c_str()), settings);
      });
    } catch (...) {
      exchange.reset();
      MPI_Comm_free(&comm);
      throw;
    }
    ranks->own();
    return OpenedDevice{std::move(ranks), std::move(exchange)};
  });
}

void MpiContext::start_on_device(const dit_exchange_call& call, dit_request*& request) {
  require_device_call(call, kind_.name, kind_.capabilities);
  open_devices(call.device);
  const auto begun = Clock::now();
  devices_.start(call, request);
  const Lock lock(mutex_);
  count_sent(call, place(), totals_);
  ++totals_.exchanges;
  if ((call.flags & DIT_EXCHANGE_BLOCKING) != 0)
    totals_.wait_seconds += std::chrono::duration<double>(Clock::now() - begun).count();
}

void MpiContext::wait_stream(dit_request* request, void* stream) {
  if (!devices_.holds(request))
    throw PluginFailure(DIT_ERROR_ARGUMENT,
                        "request is of no exchange of device memory of this context, expected one");
  devices_.wait_stream(request, stream);
}

void MpiContext::check() {
  require_good();
  devices_.check();
}

dit_memory* MpiContext::register_memory(void* memory, std::size_t bytes, int memory_kind, int device) {
  require_good();
  wait_for_starts();
  MpiRanks ranks(comm_);
  agree_on_memory(ranks, memory, bytes, memory_kind, device);
  if (memory_kind == DIT_MEMORY_HOST) {
    std::unique_ptr<dit_memory> made;
    together(ranks, [&] { made = std::make_unique<dit_memory>(); });
    return made.release();
  }
  if (!devices_.is_open()) open_devices(device);
  return devices_.add_memory(memory, bytes, device);
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
