// Contexts and requests with owners.
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>

#include "exchange/exchange.hpp"

namespace dit {
namespace {

// Throws the plugin's words for a status that is not DIT_OK.
void check(const dit_exchange_plugin& table, const dit_context* context, dit_status status,
           const char* function) {
  if (status == DIT_OK) return;
  const char* words = table.last_error(context);
  std::string text = std::string("exchange plugin ") + table.name + ": ";
  if (words != nullptr && *words != '\0')
    text += words;
  else
    text += std::string(function) + " failed with status " + std::to_string(status) + ", without words";
  throw ExchangeError(status, text);
}

}  // namespace

ExchangeRequest::ExchangeRequest(ExchangeRequest&& other) noexcept
    : table_(other.table_), context_(other.context_), request_(std::exchange(other.request_, nullptr)) {}

ExchangeRequest& ExchangeRequest::operator=(ExchangeRequest&& other) noexcept {
  if (this == &other) return *this;
  finish();
  table_ = other.table_;
  context_ = other.context_;
  request_ = std::exchange(other.request_, nullptr);
  return *this;
}

ExchangeRequest::~ExchangeRequest() {
  finish();
}

// For where nothing may be thrown.
void ExchangeRequest::finish() noexcept {
  try {
    wait();
  } catch (const std::exception& error) {
    spdlog::warn("an exchange that nobody waited for failed: {}", error.what());
  }
}

bool ExchangeRequest::test() {
  if (request_ == nullptr) return true;
  int done = 0;
  check(*table_, context_, table_->test(context_, &request_, &done), "test");
  return done != 0;
}

void ExchangeRequest::wait() {
  if (request_ == nullptr) return;
  const dit_status status = table_->wait(context_, &request_);
  request_ = nullptr;
  check(*table_, context_, status, "wait");
}

ExchangeContext::ExchangeContext(const ExchangePlugin& plugin, const Options& options) : plugin_(plugin) {
  dit_open_options plain{};
  plain.struct_size = sizeof(plain);
  plain.communicator = options.communicator;
  plain.timeout_seconds = options.timeout_seconds;
  plain.config = options.config.empty() ? nullptr : options.config.c_str();
  check(plugin.table(), nullptr, plugin.table().open(&plain, &context_), "open");
}

ExchangeContext::ExchangeContext(ExchangeContext&& other) noexcept
    : plugin_(other.plugin_),
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
    spdlog::warn("{}", error.what());
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

ExchangeRequest ExchangeContext::start(dit_exchange_call call) {
  call.struct_size = sizeof(call);
  ExchangeRequest request;
  request.table_ = &plugin_.table();
  request.context_ = context_;
  check(plugin_.table(), context_, plugin_.table().start(context_, &call, &request.request_), "start");
  return request;
}

std::uint64_t ExchangeContext::take_layout_ids(std::uint64_t count) {
  return std::exchange(next_layout_id_, next_layout_id_ + count);
}

void ExchangeContext::exchange(dit_exchange_call call) {
  call.flags |= DIT_EXCHANGE_BLOCKING;
  start(call).wait();
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
