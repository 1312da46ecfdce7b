/// One tensor's way from one layout to the other: packing, the exchange, unpacking. Buffers are allocated
/// once.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <vector>

#include "exchange/exchange.hpp"
#include "layout/layout.hpp"

namespace dit {

/// Where an exchange writes, and the tensor that it becomes; one and the same where blocks arrive in their
/// places.
struct Received {
  at::Tensor buffer;
  at::Tensor tensor;
};

class TensorExchange {
 public:
  struct How {
    bool blocking = false;
    const char* label = nullptr;
  };

  /// `layout_id`: as in dit_exchange_call.
  TensorExchange(ExchangeLayout layout, at::ScalarType dtype, std::uint64_t layout_id);

  /// Memory for what arrives, zero at first; it becomes `tensor`, or a part of it.
  [[nodiscard]] Received make_received(const at::Tensor& tensor) const;

  /// Copies the source to the send buffer, unless it can be sent as it lies; it is kept until finish.
  void pack(const at::Tensor& source);
  [[nodiscard]] ExchangeRequest start(ExchangeContext& context, const Received& into, How how) const;
  /// After the wait: unpacks into the tensor.
  void finish(const Received& into);

  /// Bytes sent to peers at `slow_level` or beyond.
  [[nodiscard]] std::uint64_t slow_bytes(const ExchangeContext& context) const;

 private:
  ExchangeLayout layout_;
  std::size_t element_bytes_;
  std::uint64_t layout_id_;
  std::vector<dit_block> send_blocks_;
  std::vector<dit_block> recv_blocks_;
  bool sends_in_place_ = false;
  bool receives_in_place_ = false;
  at::Tensor packed_;  // what is sent, when it must be packed
  at::Tensor source_;  // kept alive while it is under way
};

}  // namespace dit
