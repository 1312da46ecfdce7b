// Registered memory with owners.
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

// A plugin that registers memory also ends that: its table was checked.
void RegisteredMemory::end() noexcept {
  if (memory_ == nullptr) return;
  const dit_status status = table_->unregister_memory(context_, &memory_);
  memory_ = nullptr;
  if (status != DIT_OK) log_warning(plugin_error(*table_, context_, status, "unregister_memory").what());
}

}  // namespace dit
