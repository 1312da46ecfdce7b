// What is under way in a context: starting, waiting, giving up.
#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "bootstrap/context.hpp"
#include "bootstrap/device.hpp"
#include "bootstrap/line_ranks.hpp"
#include "common/device_arguments.hpp"
#include "exchange/check_call.hpp"
#include "exchange/select_rows.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

constexpr const char* kName = "bootstrap";

/// Adds the time until its end to a context's.
class Stopwatch {
 public:
  Stopwatch(std::mutex& mutex, double& seconds) : mutex_(mutex), seconds_(seconds) {}
  ~Stopwatch() {
    const std::scoped_lock lock(mutex_);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  std::mutex& mutex_;
  double& seconds_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace

void BootstrapContext::start(const dit_exchange_call& given, dit_request*& request) {
  line_->require_good();
  require_argument(check_call(&given, place()));
  const dit_exchange_call call = completed(given);
  const bool blocking = (call.flags & DIT_EXCHANGE_BLOCKING) != 0;
  if (call.memory_kind == DIT_MEMORY_CUDA && bootstrap_devices.make != nullptr) {
    start_on_device(call, request);
    return;
  }
  if (const std::string wrong = check_host_memory(call, kName); !wrong.empty())
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, wrong);
  if (const std::string wrong = check_not_strided(call, kName); !wrong.empty())
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, wrong);
  const auto step = std::make_shared<ExchangeStep>(call, place());
  {
    const Lock lock(mutex_);
    requests_.push_back(std::make_unique<Request>(Request{step}));
    try {
      line_->add(step);
    } catch (...) {
      requests_.pop_back();
      throw;
    }
    request = reinterpret_cast<dit_request*>(requests_.back().get());
    count_sent(call, place(), totals_);
  }
  if (blocking) wait_for(request);
}

void BootstrapContext::start_on_device(const dit_exchange_call& call, dit_request*& request) {
  require_device_call(call, kName, bootstrap_devices.capabilities);
  open_devices(call.device);
  {
    std::optional<Stopwatch> watch;
    if ((call.flags & DIT_EXCHANGE_BLOCKING) != 0) watch.emplace(mutex_, totals_.wait_seconds);
    devices_.start(call, request);
  }
  const Lock lock(mutex_);
  count_sent(call, place(), totals_);
  ++totals_.exchanges;
}

void BootstrapContext::open_devices(int device) {
  devices_.open(device, [&](const DeviceSettings& settings) {
    auto ranks = std::make_unique<LineRanks>(line_, "preparing device memory", settings_.timeout_seconds);
    auto exchange = bootstrap_devices.make(*ranks, settings);
    return OpenedDevice{std::move(ranks), std::move(exchange)};
  });
}

dit_memory* BootstrapContext::register_memory(void* memory, std::size_t bytes, int memory_kind, int device) {
  line_->require_good();
  LineRanks ranks(line_, "register_memory", settings_.timeout_seconds);
  agree_on_memory(ranks, memory, bytes, memory_kind, device);
  if (memory_kind == DIT_MEMORY_HOST) return new dit_memory;
  if (!devices_.is_open()) open_devices(device);
  return devices_.add_memory(memory, bytes, device);
}

std::shared_ptr<ExchangeStep> BootstrapContext::step_of(const dit_request* request) const {
  const Lock lock(mutex_);
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const auto& known) {
    return known.get() == reinterpret_cast<const Request*>(request) && !known->cancelled;
  });
  if (found == requests_.end())
    throw PluginFailure(DIT_ERROR_ARGUMENT, "request is none of this context, expected one that start gave");
  return (*found)->step;
}

void BootstrapContext::take(dit_request*& request) {
  const Lock lock(mutex_);
  std::erase_if(requests_,
                [&](const auto& known) { return known.get() == reinterpret_cast<Request*>(request); });
  request = nullptr;
}

void BootstrapContext::test(dit_request*& request) {
  if (devices_.holds(request)) return devices_.test(request);
  const auto step = step_of(request);
  bool ended = false;
  try {
    ended = line_->ended(*step);
  } catch (const PluginFailure&) {
    take(request);
    throw;
  }
  if (ended) take(request);
}

void BootstrapContext::wait(dit_request*& request) {
  if (!devices_.holds(request)) return wait_for(request);
  const Stopwatch watch(mutex_, totals_.wait_seconds);
  devices_.wait(request);
}

// One that is late stays.
void BootstrapContext::wait_for(dit_request*& request) {
  const Stopwatch watch(mutex_, totals_.wait_seconds);
  const auto step = step_of(request);
  bool ended = false;
  try {
    ended = line_->wait(*step, settings_.timeout_seconds);
  } catch (const PluginFailure&) {
    take(request);
    throw;
  }
  if (!ended) throw overdue(*line_, *step, settings_.timeout_seconds);
  take(request);
}

void BootstrapContext::wait_stream(dit_request* request, void* stream) {
  if (!devices_.holds(request))
    throw PluginFailure(DIT_ERROR_ARGUMENT,
                        "request is of no exchange of device memory of this context, expected one");
  devices_.wait_stream(request, stream);
}

void BootstrapContext::cancel(dit_request*& request, dit_release release, void* user) {
  if (devices_.holds(request)) return devices_.cancel(request, release, user);
  (void)step_of(request);
  const Lock lock(mutex_);
  auto& given_up = *reinterpret_cast<Request*>(request);
  given_up.cancelled = true;
  given_up.owner = {release, user};
  request = nullptr;
}

// Without the mutex: what is called may do anything but call the context.
void BootstrapContext::release_buffers() noexcept {
  tell_released([&] { return devices_.take_released(); });
  tell_released([&]() -> std::optional<Release> {
    const Lock lock(mutex_);
    const auto is_free = [&](const auto& request) {
      return request->cancelled && line_->is_over(*request->step);
    };
    const auto found = std::ranges::find_if(requests_, is_free);
    if (found == requests_.end()) return std::nullopt;
    const Release owner = (*found)->owner;
    requests_.erase(found);
    return owner;
  });
}

}  // namespace dit
