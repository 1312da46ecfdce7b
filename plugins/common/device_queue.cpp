#include "common/device_queue.hpp"

#include <algorithm>

#include "common/context.hpp"
#include "common/mpi_error.hpp"

namespace dit {

DeviceQueue::~DeviceQueue() {
  exchange_.reset();
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

void DeviceQueue::open(MPI_Comm comm, int device) {
  const Lock lock(mutex_);
  if (failure_) throw PluginFailure(*failure_);
  if (exchange_ != nullptr) {
    if (device == device_) return;
    throw PluginFailure(DIT_ERROR_ARGUMENT, "device is " + std::to_string(device) + ", expected " +
                                                std::to_string(device_) + " as in this context's first call");
  }
  try {
    check_mpi(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
    exchange_ = kind_.make_device(comm_, kind_.read(config_.c_str()), {timeout_seconds_, device});
  } catch (const PluginFailure& failure) {
    failure_.emplace(failure.status(), std::string("device memory cannot be exchanged: ") + failure.what());
    throw PluginFailure(*failure_);
  }
  device_ = device;
}

DeviceExchange& DeviceQueue::opened() const {
  if (exchange_ == nullptr)
    throw PluginFailure(DIT_ERROR_ARGUMENT,
                        "no device memory was registered or exchanged, expected that before this call");
  return *exchange_;
}

void DeviceQueue::check_failure() {
  if (failure_) throw PluginFailure(*failure_);
  try {
    exchange_->check();
  } catch (const PluginFailure& failure) {
    failure_ = failure;
    throw;
  }
}

dit_request* DeviceQueue::start(const dit_exchange_call& call) {
  auto made = std::make_unique<dit_request>();
  made->label = call_name(call.label);
  dit_request* request = made.get();
  {
    const Lock lock(mutex_);
    check_failure();
    made->end = opened().start(call);
    requests_.push_back(std::move(made));
  }
  if ((call.flags & DIT_EXCHANGE_BLOCKING) != 0) wait(request);
  return request;
}

bool DeviceQueue::holds(const dit_request* request) const {
  const Lock lock(mutex_);
  return std::any_of(requests_.begin(), requests_.end(),
                     [request](const auto& known) { return known.get() == request; });
}

void DeviceQueue::take(dit_request*& request) {
  std::erase_if(requests_, [request](const auto& known) { return known.get() == request; });
  request = nullptr;
}

void DeviceQueue::test(dit_request*& request) {
  const Lock lock(mutex_);
  if (!request->end->passed()) return;
  take(request);
  check_failure();
}

// The wait ends by the device's own time limit.
void DeviceQueue::wait(dit_request*& request) {
  request->end->wait();
  const Lock lock(mutex_);
  take(request);
  check_failure();
}

void DeviceQueue::wait_stream(const dit_request& request, void* stream) const {
  request.end->hold(stream);
}

// Without anybody to tell it is forgotten at once: the stream does the rest.
void DeviceQueue::cancel(dit_request*& request, dit_release release, void* user) {
  const Lock lock(mutex_);
  if (release == nullptr) return take(request);
  request->cancelled = true;
  request->release = release;
  request->user = user;
  request = nullptr;
}

std::vector<std::unique_ptr<dit_request>> DeviceQueue::take_released() noexcept {
  std::vector<std::unique_ptr<dit_request>> done;
  const Lock lock(mutex_);
  for (auto& request : requests_) {
    try {
      if (request->cancelled && request->end->passed()) done.push_back(std::move(request));
    } catch (const PluginFailure&) {  // the device has failed: its next call says so
    }
  }
  std::erase(requests_, nullptr);
  return done;
}

dit_memory* DeviceQueue::add_memory(void* memory, std::size_t bytes) {
  const Lock lock(mutex_);
  check_failure();
  auto made = std::make_unique<dit_memory>();
  check_mpi(MPI_Comm_size(comm_, &made->size), "MPI_Comm_size");
  made->number = opened().add_memory(memory, bytes);
  return made.release();
}

void DeviceQueue::remove_memory(const dit_memory& memory) {
  const Lock lock(mutex_);
  if (memory.number >= 0) opened().remove_memory(memory.number);
}

int DeviceQueue::number_of(const dit_memory& memory) const {
  if (memory.number < 0)
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, "memory is of the host, expected memory of a device");
  return memory.number;
}

void* DeviceQueue::peer_memory(const dit_memory& memory, int rank) {
  if (rank < 0 || rank >= memory.size)
    throw PluginFailure(DIT_ERROR_ARGUMENT, "rank is " + std::to_string(rank) + ", expected 0 to " +
                                                std::to_string(memory.size - 1));
  const Lock lock(mutex_);
  return opened().peer_memory(number_of(memory), rank);
}

void DeviceQueue::begin_stores(const dit_memory& memory, void* stream) {
  const Lock lock(mutex_);
  check_failure();
  opened().begin_stores(number_of(memory), stream);
}

dit_request* DeviceQueue::end_stores(const dit_memory& memory, void* stream) {
  auto made = std::make_unique<dit_request>();
  made->label = call_name("stores");
  const Lock lock(mutex_);
  check_failure();
  made->end = opened().end_stores(number_of(memory), stream);
  requests_.push_back(std::move(made));
  return requests_.back().get();
}

void DeviceQueue::close() {
  for (const auto& request : requests_) request->end->wait();
  exchange_.reset();
}

std::string DeviceQueue::text() const {
  return exchange_ == nullptr ? std::string() : exchange_->text();
}

}  // namespace dit
