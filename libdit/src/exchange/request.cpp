// Requests with owners.
#include <mutex>

#include "exchange/exchange.hpp"
#include "exchange/log.hpp"
#include "exchange/plugin_status.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

// Buffers that nobody will ever say are free.
void keep_for_good(std::shared_ptr<void> buffers) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;  // reachable to the very end
  if (buffers == nullptr) return;
  const std::scoped_lock lock(mutex);
  kept->push_back(std::move(buffers));
}

void release(void* user) {
  delete static_cast<std::shared_ptr<void>*>(user);
}

}  // namespace

ExchangeError plugin_error(const dit_exchange_plugin& table, const dit_context* context, dit_status status,
                           const char* function) {
  const char* words = table.last_error(context);
  std::string text = std::string("exchange plugin ") + table.name + ": ";
  if (words != nullptr && *words != '\0')
    text += words;
  else
    text += std::string(function) + " failed with status " + std::to_string(status) + ", without words";
  return {status, text};
}

void check(const dit_exchange_plugin& table, const dit_context* context, dit_status status,
           const char* function) {
  if (status != DIT_OK) throw plugin_error(table, context, status, function);
}

ExchangeRequest::ExchangeRequest(ExchangeRequest&& other) noexcept
    : table_(other.table_),
      context_(other.context_),
      request_(std::exchange(other.request_, nullptr)),
      buffers_(std::move(other.buffers_)) {}

ExchangeRequest& ExchangeRequest::operator=(ExchangeRequest&& other) noexcept {
  if (this == &other) return *this;
  finish();
  table_ = other.table_;
  context_ = other.context_;
  request_ = std::exchange(other.request_, nullptr);
  buffers_ = std::move(other.buffers_);
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
    log_warning(std::string("an exchange that nobody waited for failed: ") + error.what());
  }
  cancel();
}

// After test or wait. Plugins without cancel free the request when they fail, and the buffers may be in use.
void ExchangeRequest::settle(dit_status status, const char* function) {
  if (status != DIT_OK && entry_of(*table_, &dit_exchange_plugin::cancel) == nullptr) {
    request_ = nullptr;
    keep_for_good(std::move(buffers_));
  }
  if (request_ == nullptr) buffers_.reset();
  check(*table_, context_, status, function);
}

bool ExchangeRequest::test() {
  if (request_ == nullptr) return true;
  int done = 0;
  settle(table_->test(context_, &request_, &done), "test");
  return done != 0;
}

void ExchangeRequest::wait() {
  if (request_ != nullptr) settle(table_->wait(context_, &request_), "wait");
}

void ExchangeRequest::cancel() {
  if (request_ == nullptr) return;
  const auto cancel = entry_of(*table_, &dit_exchange_plugin::cancel);
  if (cancel == nullptr) {
    request_ = nullptr;
    return keep_for_good(std::move(buffers_));
  }
  if (buffers_ == nullptr) {
    check(*table_, context_, cancel(context_, &request_, nullptr, nullptr), "cancel");
    return;
  }
  auto buffers = std::make_unique<std::shared_ptr<void>>(std::move(buffers_));
  check(*table_, context_, cancel(context_, &request_, release, buffers.get()), "cancel");
  static_cast<void>(buffers.release());  // the plugin's now
}

void ExchangeRequest::wait_stream(void* stream) {
  if (request_ == nullptr) return;
  const auto wait = entry_of(*table_, &dit_exchange_plugin::wait_stream);
  if (wait == nullptr)
    throw ExchangeError(DIT_ERROR_UNSUPPORTED, std::string("exchange plugin ") + table_->name +
                                                   " has no streams that wait, expected a wait of the rank");
  check(*table_, context_, wait(context_, request_, stream), "wait_stream");
}

void ExchangeRequest::also_keep_alive(std::shared_ptr<void> buffers) {
  using Both = std::pair<std::shared_ptr<void>, std::shared_ptr<void>>;
  if (request_ != nullptr) keep_alive(std::make_shared<Both>(std::move(buffers_), std::move(buffers)));
}

void ExchangeRequest::cancel(std::shared_ptr<void> buffers) {
  keep_alive(std::move(buffers));
  cancel();
}

}  // namespace dit
