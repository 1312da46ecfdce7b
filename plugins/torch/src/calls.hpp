/// Calls of dit.h as C++ has them: owners for its handles, and exceptions for what fails.
#pragma once

#include <memory>

#include "dit/dit.h"
#include "exchange/exchange.hpp"

namespace dit::operators {

/// Throws ExchangeError with the words of dit_last_error unless a call went well.
inline void require_ok(dit_status status) {
  if (status != DIT_OK) throw ExchangeError(status, dit_last_error());
}

template <auto Free>
struct Freed {
  template <typename Handle>
  void operator()(Handle* handle) const {
    (void)Free(&handle);  // what failed is in the log, or lost with its memory
  }
};
using LayoutHandle = std::unique_ptr<dit_layout, Freed<dit_layout_free>>;
using SessionHandle = std::unique_ptr<dit_session, Freed<dit_session_close>>;
using RegistrationHandle = std::unique_ptr<dit_registration, Freed<dit_registration_free>>;
using TransferHandle = std::unique_ptr<dit_transfer, Freed<dit_transfer_free>>;
using WireHandle = std::unique_ptr<dit_wire, Freed<dit_wire_free>>;

}  // namespace dit::operators
