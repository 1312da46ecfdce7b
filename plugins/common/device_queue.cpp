#include "common/device_queue.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "common/agree.hpp"
#include "common/context.hpp"
#include "common/mpi_error.hpp"

namespace dit {
namespace {

/// Whether it does; `limit` in seconds, 0: none.
bool ends_within(MPI_Request& request, double limit) {
  const auto begun = std::chrono::steady_clock::now();
  for (int done = 0;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return true;
    const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (limit > 0 && passed > limit) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace

DeviceQueue::~DeviceQueue() {
  exchange_.reset();
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

void DeviceQueue::open(MPI_Comm comm, int device) {
  const Lock lock(mutex_);
  if (failure_) throw PluginFailure(*failure_);
  if (exchange_ != nullptr) return require_device(device);
  try {
    check_mpi(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
    exchange_ = kind_.make_device(comm_, kind_.read(config_.c_str()), {timeout_seconds_, device});
  } catch (const PluginFailure& failure) {
    failure_.emplace(failure.status(), std::string("device memory cannot be exchanged: ") + failure.what());
    throw PluginFailure(*failure_);
  }
  device_ = device;
}

void DeviceQueue::require_device(int device) const {
  if (device == device_) return;
  throw PluginFailure(DIT_ERROR_ARGUMENT, "device is " + std::to_string(device) + ", expected " +
                                              std::to_string(device_) + " as in this context's first call");
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
    fail(failure);
    throw;
  }
}

// With the mutex held.
void DeviceQueue::fail(const PluginFailure& failure) {
  if (failure_) return;
  failure_.emplace(failure);
  exchange_->stop();
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

// The wait ends by the device's own time limit, or its end's.
void DeviceQueue::wait(dit_request*& request) {
  try {
    request->end->wait();
  } catch (const PluginFailure& failure) {
    const Lock lock(mutex_);
    fail(failure);
    throw;
  }
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

dit_memory* DeviceQueue::add_memory(void* memory, std::size_t bytes, int device) {
  const Lock lock(mutex_);
  DeviceExchange& exchange = opened();
  together(comm_, [&] {
    require_device(device);
    check_failure();
  });
  auto made = std::make_unique<dit_memory>();
  check_mpi(MPI_Comm_size(comm_, &made->size), "MPI_Comm_size");
  made->number = exchange.add_memory(memory, bytes);
  return made.release();
}

void DeviceQueue::remove_memory(const dit_memory& memory) {
  const Lock lock(mutex_);
  if (memory.number < 0) return;
  DeviceExchange& exchange = opened();
  together(comm_, [&] { exchange.settle(); });
  exchange.remove_memory(memory.number);
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

// A rank whose device has failed does not know whether others will ever come, and one that is well does not
// know that others have failed: a late rank may find all data there. The second step is for a rank that comes
// when others have given up waiting in the first one.
DeviceQueue::Ending DeviceQueue::agree_on_end(bool failed) {
  constexpr double kMoment = 1;  // second
  const double limit = failed ? kMoment : std::max(timeout_seconds_, timeout_seconds_ > 0 ? kMoment : 0);
  auto flags = std::make_unique<std::array<int, 2>>(std::array{failed ? 1 : 0, 0});
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(&(*flags)[0], &(*flags)[1], 1, MPI_INT, MPI_MAX, comm_, &request),
            "MPI_Iallreduce");
  bool came = ends_within(request, limit);
  if (came && (*flags)[1] != 0) return Ending::some_failed;
  if (came) {
    check_mpi(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
    came = ends_within(request, limit);
  }
  if (came) return Ending::all_well;
  static_cast<void>(flags.release());  // MPI may still write there
  comm_ = MPI_COMM_NULL;
  return Ending::not_all_came;
}

void DeviceQueue::close() {
  if (exchange_ == nullptr) return;
  std::optional<PluginFailure> untold;
  try {
    for (const auto& request : requests_) request->end->wait();
    exchange_->check();
  } catch (const PluginFailure& failure) {
    if (!failure_) untold = failure;
    exchange_->stop();
  }
  const bool failed = failure_ || untold;
  const Ending ending = agree_on_end(failed);
  if (ending != Ending::all_well) exchange_->abandon();
  exchange_.reset();
  if (untold) throw PluginFailure(*untold);
  if (!failed && ending == Ending::not_all_came)
    throw PluginFailure(DIT_ERROR_TIMEOUT, "not all ranks have come to close within " +
                                               std::to_string(timeout_seconds_) +
                                               " s: what they may still use of device memory is kept");
}

std::string DeviceQueue::text() const {
  return exchange_ == nullptr ? std::string() : exchange_->text();
}

}  // namespace dit
