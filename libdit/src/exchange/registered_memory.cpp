// Registered memory with owners.
#include <exception>

#include "exchange/exchange.hpp"
#include "exchange/log.hpp"
#include "exchange/plugin_status.hpp"

namespace dit {

RegisteredMemory::RegisteredMemory(RegisteredMemory&& other) noexcept
    : table_(other.table_), context_(other.context_), memory_(std::exchange(other.memory_, nullptr)) {}

RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&& other) noexcept {
  if (this == &other) return *this;
  end();
  table_ = other.table_;
  context_ = other.context_;
  memory_ = std::exchange(other.memory_, nullptr);
  return *this;
}

RegisteredMemory::~RegisteredMemory() {
  end();
}

void* RegisteredMemory::peer_memory(int rank) const {
  void* begin = nullptr;
  check(*table_, context_, table_->peer_memory(context_, memory_, rank, &begin), "peer_memory");
  return begin;
}

void RegisteredMemory::begin_stores(void* stream) const {
  check(*table_, context_, table_->begin_stores(context_, memory_, stream), "begin_stores");
}

ExchangeRequest RegisteredMemory::end_stores(void* stream) const {
  ExchangeRequest request(*table_, context_, nullptr);
  check(*table_, context_, table_->end_stores(context_, memory_, stream, &request.request_), "end_stores");
  return request;
}

// A plugin that registers memory also ends that: its table was checked.
void RegisteredMemory::end() noexcept {
  if (memory_ == nullptr) return;
  const dit_status status = table_->unregister_memory(context_, &memory_);
  memory_ = nullptr;
  try {
    check(*table_, context_, status, "unregister_memory");
  } catch (const std::exception& error) {
    log_warning(error.what());
  }
}

}  // namespace dit
