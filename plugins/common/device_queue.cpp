#include "common/device_queue.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "common/agree.hpp"

namespace dit {

void DeviceQueue::open(int device, const std::function<OpenedDevice(const DeviceSettings&)>& make) {
  const Lock lock(mutex_);
  if (failure_) throw PluginFailure(*failure_);
  if (exchange_ != nullptr) return require_device(device);
  try {
    OpenedDevice opened = make({timeout_seconds_, device});
    ranks_ = std::move(opened.ranks);
    exchange_ = std::move(opened.exchange);
  } catch (const PluginFailure& failure) {
    std::array<char, 1024> words{};
    std::snprintf(words.data(), words.size(), "device memory cannot be exchanged: %s", failure.what());
    failure_.emplace(failure.status(), words.data());
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

// With the mutex held. What is late may still come, what has failed for good does not.
void DeviceQueue::fail(const PluginFailure& failure) {
  if (failure_) return;
  const bool late = failure.status() == DIT_ERROR_TIMEOUT;
  failure_.emplace(late ? DIT_ERROR_COMMUNICATION : failure.status(), failure.what());
  exchange_->stop();
}

// Asks about a request. What its end says of the device is for good.
template <class Ask>
auto DeviceQueue::ask(const Ask& ask) {
  try {
    return ask();
  } catch (const PluginFailure& failure) {
    const Lock lock(mutex_);
    fail(failure);
    throw;
  }
}

// With the mutex held.
dit_request* DeviceQueue::add(std::unique_ptr<StreamEnd> end) {
  requests_.push_back(std::make_unique<Request>(Request{std::move(end)}));
  return reinterpret_cast<dit_request*>(requests_.back().get());
}

void DeviceQueue::start(const dit_exchange_call& call, dit_request*& request) {
  {
    const Lock lock(mutex_);
    check_failure();
    request = add(opened().start(call));
  }
  if ((call.flags & DIT_EXCHANGE_BLOCKING) != 0) wait(request);
}

bool DeviceQueue::holds(const dit_request* request) const {
  const Lock lock(mutex_);
  return std::any_of(requests_.begin(), requests_.end(),
                     [request](const auto& known) { return known.get() == known_as(request); });
}

void DeviceQueue::Request::require_complete() const {
  if (lost)
    throw PluginFailure(DIT_ERROR_COMMUNICATION,
                        "the exchange was under way at a restart, and is not complete");
}

std::unique_ptr<DeviceQueue::Request> DeviceQueue::take(dit_request*& request) {
  const auto found = std::find_if(requests_.begin(), requests_.end(),
                                  [request](const auto& known) { return known.get() == known_as(request); });
  std::unique_ptr<Request> taken = std::move(*found);
  requests_.erase(found);
  request = nullptr;
  return taken;
}

// With the mutex held. Throws where what has ended is not complete.
void DeviceQueue::take_complete(dit_request*& request) {
  const std::unique_ptr<Request> ended = take(request);
  check_failure();
  ended->require_complete();
}

void DeviceQueue::test(dit_request*& request) {
  if (!ask([&] { return known_as(request)->end->passed(); })) return;
  const Lock lock(mutex_);
  take_complete(request);
}

// The wait ends by the device's own time limit, or its end's.
void DeviceQueue::wait(dit_request*& request) {
  ask([&] { known_as(request)->end->wait(); });
  const Lock lock(mutex_);
  take_complete(request);
}

// What fails later is told by the next call, and by check().
void DeviceQueue::wait_stream(const dit_request* request, void* stream) {
  check();
  known_as(request)->require_complete();
  known_as(request)->end->hold(stream);
}

// Without anybody to tell it is forgotten at once: the stream does the rest.
void DeviceQueue::cancel(dit_request*& request, dit_release release, void* user) {
  const Lock lock(mutex_);
  if (release == nullptr) {
    take(request);
    return;
  }
  known_as(request)->cancelled = {release, user};
  request = nullptr;
}

// Exchanges end in the order in which they began: only the oldest is asked, as there may be as many as a
// program is ahead of its device.
std::optional<Release> DeviceQueue::take_released() noexcept {
  const Lock lock(mutex_);
  const auto oldest = std::ranges::find_if(
      requests_, [](const auto& request) { return request->cancelled.release != nullptr; });
  try {
    if (oldest == requests_.end() || !(*oldest)->end->passed()) return std::nullopt;
  } catch (const std::exception&) {  // the device has failed: its next call says so
    return std::nullopt;
  }
  const Release owner = (*oldest)->cancelled;
  requests_.erase(oldest);
  return owner;
}

void DeviceQueue::give_up(const std::string& why) {
  const Lock lock(mutex_);
  if (exchange_ == nullptr) return;
  if (!failure_) failure_.emplace(DIT_ERROR_COMMUNICATION, why);
  exchange_->give_up(why);
}

void DeviceQueue::restart() {
  const Lock lock(mutex_);
  opened().restart();
  failure_.reset();
  for (const auto& request : requests_) request->lost = true;
}

void DeviceQueue::check() {
  const Lock lock(mutex_);
  if (exchange_ != nullptr) check_failure();
}

dit_memory* DeviceQueue::add_memory(void* memory, std::size_t bytes, int device) {
  const Lock lock(mutex_);
  DeviceExchange& exchange = opened();
  std::unique_ptr<dit_memory> made;
  together(*ranks_, [&] {
    require_device(device);
    check_failure();
    made = std::make_unique<dit_memory>();
  });
  made->size = ranks_->size();
  made->number = exchange.add_memory(memory, bytes);
  return made.release();
}

void DeviceQueue::remove_memory(const dit_memory& memory) {
  const Lock lock(mutex_);
  if (memory.number < 0) return;
  DeviceExchange& exchange = opened();
  together(*ranks_, [&] { exchange.settle(); });
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
  const Lock lock(mutex_);
  check_failure();
  return add(opened().end_stores(number_of(memory), stream));
}

// A rank whose device has failed does not know whether others will ever come, and one that is well does not
// know that others have failed: a late rank may find all data there. The second step is for a rank that comes
// when others have given up waiting in the first one.
DeviceQueue::Ending DeviceQueue::agree_on_end(bool failed) {
  constexpr double kMoment = 1;  // second
  const double limit = failed ? kMoment : std::max(timeout_seconds_, timeout_seconds_ > 0 ? kMoment : 0);
  const std::optional<int> some_failed = ranks_->greatest_within(failed ? 1 : 0, limit);
  if (!some_failed) return Ending::not_all_came;
  if (*some_failed != 0) return Ending::some_failed;
  return ranks_->greatest_within(0, limit) ? Ending::all_well : Ending::not_all_came;
}

void DeviceQueue::close() {
  if (exchange_ == nullptr) return;
  std::optional<PluginFailure> unreported;
  try {
    for (const auto& request : requests_) request->end->wait();
    exchange_->check();
  } catch (const PluginFailure& failure) {
    if (!failure_) unreported = failure;
    exchange_->stop();
  }
  const bool failed = failure_ || unreported;
  Ending ending = Ending::not_all_came;
  try {
    ending = agree_on_end(failed);
  } catch (const PluginFailure& failure) {  // the ranks cannot reach each other
    if (!failed) unreported = failure;
  }
  if (ending != Ending::all_well) exchange_->abandon();
  exchange_.reset();
  if (unreported) throw PluginFailure(*unreported);
  if (!failed && ending == Ending::not_all_came)
    throw PluginFailure(DIT_ERROR_TIMEOUT, "not all ranks have come to close within " +
                                               std::to_string(timeout_seconds_) +
                                               " s: what they may still use of device memory is kept");
}

std::string DeviceQueue::text() const {
  return exchange_ == nullptr ? std::string() : exchange_->text();
}

}  // namespace dit
