// Requests with owners.
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "exchange/exchange.hpp"
#include "exchange/log.hpp"
#include "exchange/plugin_status.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

// Puts these, which may be none, before others.
void put_before(std::unique_ptr<KeptBuffers> buffers, std::unique_ptr<KeptBuffers>& others) {
  if (buffers == nullptr) return;
  std::unique_ptr<KeptBuffers>* end = &buffers->more;
  while (*end != nullptr) end = &(*end)->more;
  *end = std::move(others);
  others = std::move(buffers);
}

// Buffers that nobody will ever say are free.
void keep_for_good(std::unique_ptr<KeptBuffers> buffers) {
  static constinit std::mutex mutex;
  static constinit KeptBuffers* kept = nullptr;  // reachable to the very end
  const std::scoped_lock lock(mutex);
  std::unique_ptr<KeptBuffers> all(kept);
  put_before(std::move(buffers), all);
  kept = all.release();
}

void release(void* user) {
  delete static_cast<KeptBuffers*>(user);
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
    log_warning("an exchange that nobody waited for failed: ", error.what());
  }
  try {
    cancel();
  } catch (const std::exception& error) {
    log_warning("an exchange could not be given up: ", error.what());
    keep_for_good(std::move(buffers_));
  }
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
  check(*table_, context_, cancel(context_, &request_, release, buffers_.get()), "cancel");
  static_cast<void>(buffers_.release());  // the plugin's now
}

void ExchangeRequest::wait_stream(void* stream) {
  if (request_ == nullptr) return;
  const auto wait = entry_of(*table_, &dit_exchange_plugin::wait_stream);
  if (wait == nullptr)
    throw ExchangeError(DIT_ERROR_UNSUPPORTED, std::string("exchange plugin ") + table_->name +
                                                   " has no streams that wait, expected a wait of the rank");
  check(*table_, context_, wait(context_, request_, stream), "wait_stream");
}

void ExchangeRequest::keep_alive(std::shared_ptr<void> buffers) {
  buffers_ = std::make_unique<KeptBuffers>(KeptBuffers{std::move(buffers), nullptr});
}

void ExchangeRequest::also_keep_alive(std::unique_ptr<KeptBuffers> buffers) noexcept {
  if (request_ != nullptr) put_before(std::move(buffers), buffers_);
}

void ExchangeRequest::cancel(std::shared_ptr<void> buffers) {
  keep_alive(std::move(buffers));
  cancel();
}

}  // namespace dit
