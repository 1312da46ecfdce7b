/// A context's exchanges of device memory: made ready at the first one, then only put on streams. They need
/// no progress of the host, so no thread looks at them.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/device_exchange.hpp"
#include "common/ranks.hpp"
#include "dit/exchange.h"
#include "exchange/plugin_guard.hpp"

/// Registered memory; what is not device memory of this plugin's kind is not prepared, and has no number.
struct dit_memory {
  int number = -1;
  int size = 0;  ///< ranks
};

namespace dit {

/// What exchanges device memory, and the ranks that it was made with.
struct OpenedDevice {
  std::unique_ptr<Ranks> ranks;
  std::unique_ptr<DeviceExchange> exchange;
};

/// The owner of buffers that are no longer used.
struct Release {
  dit_release release;
  void* user;
};

/// Tells all, of whom `take` gives one after the other: there may be no memory for a list.
template <class Take>
void tell_released(const Take& take) noexcept {
  while (const std::optional<Release> owner = take())
    if (owner->release != nullptr) owner->release(owner->user);
}

/// Functions throw PluginFailure. A dit_request is of this queue where holds() says so.
class DeviceQueue {
 public:
  explicit DeviceQueue(double timeout_seconds) : timeout_seconds_(timeout_seconds) {}
  ~DeviceQueue() = default;
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  [[nodiscard]] bool is_open() const { return exchange_ != nullptr; }
  /// Collective at the first call, when `make` is asked; later ones only look at the device. A failure is for
  /// good.
  void open(int device, const std::function<OpenedDevice(const DeviceSettings&)>& make);

  /// Of a checked call. A blocking one is waited for, and sets null, unless it is late.
  void start(const dit_exchange_call& call, dit_request*& request);
  [[nodiscard]] bool holds(const dit_request* request) const;
  /// These set the request to null when its buffers are no longer used.
  void test(dit_request*& request);
  void wait(dit_request*& request);
  void wait_stream(const dit_request* request, void* stream);
  void cancel(dit_request*& request, dit_release release, void* user);
  /// Forgets one that was cancelled and is done, if there is any: whom to tell.
  [[nodiscard]] std::optional<Release> take_released() noexcept;

  /// This rank starts nothing more: later calls fail with these words, and who waits for it is told. Local.
  void give_up(const std::string& why);
  /// After failures, on whatever ranks: as new, with registered memory. Collective, after open().
  void restart();
  /// Throws what has failed so far.
  void check();

  /// Collective, after open(): all ranks throw when one does.
  [[nodiscard]] dit_memory* add_memory(void* memory, std::size_t bytes, int device);
  void remove_memory(const dit_memory& memory);
  [[nodiscard]] void* peer_memory(const dit_memory& memory, int rank);
  void begin_stores(const dit_memory& memory, void* stream);
  [[nodiscard]] dit_request* end_stores(const dit_memory& memory, void* stream);

  /// Waits for what is under way, and frees what open() made. Collective; but where this rank's device has
  /// failed it waits for others a moment only, and where theirs has, or they do not come within the time
  /// limit, what they may still use is kept. Throws when they do not come, or for a failure that nobody has
  /// been told of.
  void close();
  [[nodiscard]] std::string text() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Request {
    std::unique_ptr<StreamEnd> end;
    Release cancelled{};  ///< whom to tell, once it is given up
    bool lost = false;    ///< was under way at a restart
    void require_complete() const;
  };
  static Request* known_as(dit_request* request) { return reinterpret_cast<Request*>(request); }
  static const Request* known_as(const dit_request* request) {
    return reinterpret_cast<const Request*>(request);
  }
  [[nodiscard]] dit_request* add(std::unique_ptr<StreamEnd> end);
  void check_failure();
  void fail(const PluginFailure& failure);
  template <class Ask>
  auto ask(const Ask& ask);
  void require_device(int device) const;
  [[nodiscard]] DeviceExchange& opened() const;
  [[nodiscard]] int number_of(const dit_memory& memory) const;
  std::unique_ptr<Request> take(dit_request*& request);
  void take_complete(dit_request*& request);
  /// What ranks have to say to each other before the end.
  enum class Ending { all_well, some_failed, not_all_came };
  [[nodiscard]] Ending agree_on_end(bool failed);

  double timeout_seconds_;
  int device_ = -1;
  std::optional<PluginFailure> failure_;
  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<DeviceExchange> exchange_;  ///< ends before its ranks
  mutable std::mutex mutex_;                  ///< guards requests_, and calls of exchange_
  std::list<std::unique_ptr<Request>> requests_;
};

}  // namespace dit
