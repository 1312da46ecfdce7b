// Contexts with owners.
#include <cstdio>
#include <cstdlib>

#include "exchange/exchange.hpp"
#include "exchange/log.hpp"
#include "exchange/plugin_status.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
ExchangeContext::ExchangeContext(const ExchangePlugin& plugin, const Options& options) : plugin_(plugin) {
  dit_open_options plain{};
  plain.struct_size = sizeof(plain);
  plain.communicator = options.communicator;
  plain.timeout_seconds = options.timeout_seconds;
  plain.config = options.config.empty() ? nullptr : options.config.c_str();
  check(plugin.table(), nullptr, plugin.table().open(&plain, &context_), "open");
}

ExchangeContext::ExchangeContext(ExchangeContext&& other) noexcept
    : plugin_(std::move(other.plugin_)),
      context_(std::exchange(other.context_, nullptr)),
      next_layout_id_(other.next_layout_id_) {}

ExchangeContext& ExchangeContext::operator=(ExchangeContext&& other) noexcept {
  std::swap(plugin_, other.plugin_);
  std::swap(context_, other.context_);
  std::swap(next_layout_id_, other.next_layout_id_);
  return *this;
}

ExchangeContext::~ExchangeContext() {
  try {
    close();
  } catch (const std::exception& error) {
    log_warning(error.what());
  }
}

void ExchangeContext::close() {
  if (context_ == nullptr) return;
  const dit_status status = plugin_.table().close(std::exchange(context_, nullptr));
  check(plugin_.table(), nullptr, status, "close");
}

int ExchangeContext::rank() const {
  return plugin_.table().rank(context_);
}

int ExchangeContext::size() const {
  return plugin_.table().size(context_);
}

std::vector<std::string> ExchangeContext::levels() const {
  std::vector<std::string> names;
  const int count = plugin_.table().level_count(context_);
  for (int level = 0; level < count; ++level) {
    const char* name = plugin_.table().level_name(context_, level);
    names.emplace_back(name != nullptr ? name : "");
  }
  return names;
}

int ExchangeContext::level_of(int peer) const {
  return plugin_.table().level_of(context_, peer);
}

bool ExchangeContext::leaves_node() const {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank() && level_of(peer) >= slow_level()) return true;
  return false;
}

int ExchangeContext::slow_level() const {
  return plugin_.table().slow_level(context_);
}

int ExchangeContext::level_named(std::string_view name) const {
  const std::vector<std::string> names = levels();
  std::string list;
  for (std::size_t level = 0; level < names.size(); ++level) {
    if (names[level] == name) return static_cast<int>(level);
    list += (level == 0 ? "" : ", ") + names[level];
  }
  throw ExchangeError(DIT_ERROR_ARGUMENT, "there is no level '" + std::string(name) +
                                              "' here; the levels of plugin " + plugin_.name() +
                                              ", fast to slow: " + list);
}

ExchangeRequest ExchangeContext::start(dit_exchange_call call, std::shared_ptr<void> buffers) {
  call.struct_size = sizeof(call);
  if ((call.send_strided != nullptr || call.recv_strided != nullptr) && !takes_strided(call.memory_kind))
    throw ExchangeError(DIT_ERROR_UNSUPPORTED, "exchange plugin " + plugin_.name() +
                                                   " takes no strided blocks, expected packed ones");
  ExchangeRequest request(plugin_.table(), context_, std::move(buffers));
  const dit_status status = plugin_.table().start(context_, &call, &request.request_);
  if (status == DIT_OK) return request;
  const ExchangeError error = plugin_error(plugin_.table(), context_, status, "start");
  if (request.active()) request.cancel();  // a blocking exchange that is late
  throw error;
}

int ExchangeContext::open_channel() {
  int channel = 0;
  if (const auto open = entry_of(plugin_.table(), &dit_exchange_plugin::open_channel))
    check(plugin_.table(), context_, open(context_, &channel), "open_channel");
  return channel;
}

void ExchangeContext::give_up(const std::string& why) {
  if (const auto give_up = entry_of(plugin_.table(), &dit_exchange_plugin::give_up))
    check(plugin_.table(), context_, give_up(context_, why.c_str()), "give_up");
}

void ExchangeContext::restart() {
  if (const auto restart = entry_of(plugin_.table(), &dit_exchange_plugin::restart))
    check(plugin_.table(), context_, restart(context_), "restart");
}

void ExchangeContext::require_good() {
  if (const auto look = entry_of(plugin_.table(), &dit_exchange_plugin::check))
    check(plugin_.table(), context_, look(context_), "check");
}

bool ExchangeContext::takes_strided(int memory_kind) const {
  const std::uint64_t bit =
      memory_kind == DIT_MEMORY_HOST ? DIT_CAPABILITY_STRIDED : DIT_CAPABILITY_DEVICE_STRIDED;
  return (entry_of(plugin_.table(), &dit_exchange_plugin::capabilities) & bit) != 0;
}

bool ExchangeContext::moves_device_memory() const {
  return entry_of(plugin_.table(), &dit_exchange_plugin::wait_stream) != nullptr;
}

bool ExchangeContext::takes_stores() const {
  return (entry_of(plugin_.table(), &dit_exchange_plugin::capabilities) & DIT_CAPABILITY_STORES) != 0;
}

RegisteredMemory ExchangeContext::register_memory(void* pointer, std::size_t bytes, dit_memory_kind kind,
                                                  int device) {
  RegisteredMemory registered;
  const auto begin = entry_of(plugin_.table(), &dit_exchange_plugin::register_memory);
  if (begin == nullptr) return registered;
  registered.table_ = &plugin_.table();
  registered.context_ = context_;
  check(plugin_.table(), context_, begin(context_, pointer, bytes, kind, device, &registered.memory_),
        "register_memory");
  return registered;
}

std::uint64_t ExchangeContext::take_layout_ids(std::uint64_t count) {
  return std::exchange(next_layout_id_, next_layout_id_ + count);
}

void ExchangeContext::exchange(dit_exchange_call call, std::shared_ptr<void> buffers) {
  call.flags |= DIT_EXCHANGE_BLOCKING;
  start(call, std::move(buffers)).wait();
}

std::unique_ptr<ExchangeContext> ExchangeContext::split(int colour, int key) {
  std::unique_ptr<ExchangeContext> part(new ExchangeContext(plugin_));
  check(plugin_.table(), context_, plugin_.table().split(context_, colour, key, &part->context_), "split");
  return part->context_ == nullptr ? nullptr : std::move(part);
}

dit_exchange_totals ExchangeContext::totals() const {
  dit_exchange_totals totals{};
  totals.struct_size = sizeof(totals);
  check(plugin_.table(), context_, plugin_.table().totals(context_, &totals), "totals");
  return totals;
}

std::string ExchangeContext::describe() const {
  std::string text(plugin_.table().describe(context_, nullptr, 0) + 1, '\0');
  plugin_.table().describe(context_, text.data(), text.size());
  text.pop_back();
  return text;
}

void ExchangeContext::abort_job(int exit_code) {
  plugin_.table().abort_job(context_, exit_code);
  // The job is this process alone: its other ranks, if any, are threads.
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

}  // namespace dit
