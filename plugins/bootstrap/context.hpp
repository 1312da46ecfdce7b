/// A context of the exchange "bootstrap".
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "bootstrap/exchange_step.hpp"
#include "bootstrap/line.hpp"
#include "common/device_queue.hpp"
#include "common/levels.hpp"

namespace dit {

/// Functions throw PluginFailure.
class BootstrapContext {
 public:
  struct Settings {
    double timeout_seconds = 0;
    std::string config;
  };
  /// Collective: all ranks throw when one does, but for what is wrong with `given`, DIT_ERROR_ARGUMENT. With
  /// any other status `given` is released, in time. `node`, `reach`: where it gives none.
  BootstrapContext(const dit_bootstrap& given, Settings settings, const std::string& node,
                   const std::string& reach);
  ~BootstrapContext() = default;
  BootstrapContext(const BootstrapContext&) = delete;
  BootstrapContext& operator=(const BootstrapContext&) = delete;

  /// Waits for what is under way. The context is then only good to be destroyed.
  void close();

  [[nodiscard]] int rank() const { return line_->rank(); }
  [[nodiscard]] int size() const { return line_->size(); }
  [[nodiscard]] const Levels& levels() const { return levels_; }

  /// As in the plugin's table. A request is set to null when its buffers are no longer used.
  void start(const dit_exchange_call& call, dit_request*& request);
  void test(dit_request*& request);
  void wait(dit_request*& request);
  void wait_stream(dit_request* request, void* stream);
  void cancel(dit_request*& request, dit_release release, void* user);
  /// Tells the owners of cancelled exchanges that are done.
  void release_buffers() noexcept;

  void check();  ///< throws what has failed for good

  [[nodiscard]] int open_channel();
  [[nodiscard]] dit_memory* register_memory(void* memory, std::size_t bytes, int memory_kind, int device);
  [[nodiscard]] DeviceQueue& devices() { return devices_; }

  [[nodiscard]] std::unique_ptr<BootstrapContext> split(int colour, int key);
  void totals(dit_exchange_totals& totals) const;
  [[nodiscard]] std::string describe() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Request {
    std::shared_ptr<ExchangeStep> step;
    bool cancelled = false;
    Release owner{};
  };

  void agree_on_opening();
  void end_line();
  [[nodiscard]] ContextPlace place() const;
  void start_on_device(const dit_exchange_call& call, dit_request*& request);
  void open_devices(int device);
  [[nodiscard]] std::shared_ptr<ExchangeStep> step_of(const dit_request* request) const;
  void take(dit_request*& request);
  void wait_for(dit_request*& request);

  Settings settings_;
  std::string node_;
  std::string reach_;
  std::shared_ptr<Line> line_;
  Levels levels_;
  int channels_ = 1;
  DeviceQueue devices_;

  mutable std::mutex mutex_;  ///< guards what follows
  std::list<std::unique_ptr<Request>> requests_;
  dit_exchange_totals totals_{};
};

}  // namespace dit
