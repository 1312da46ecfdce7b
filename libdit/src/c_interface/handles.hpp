/// What stands behind the handles of dit.h.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dit/dit.h"
#include "exchange/exchange.hpp"
#include "layout/layout.hpp"

struct dit_session {
  explicit dit_session(dit::ExchangeContext opened) : context(std::move(opened)) {}

  dit::ExchangeContext context;
  dit_session* whole = nullptr;  // of which this is a part
  // Not freed yet: they use the context.
  std::atomic<int> transfers{0}, wires{0}, parts{0}, registrations{0};
  int wires_made = 0;  // the same on all ranks
  std::atomic<std::uint64_t> transfers_made{0};
};

struct dit_registration {
  dit_session& session;
  std::byte* begin;
  std::size_t bytes;
  dit::RegisteredMemory memory;
  std::atomic<int> bound{0};  // targets of transfers that are not freed yet
};

struct dit_layout {
  dit::UlyssesLayout layout;
};
