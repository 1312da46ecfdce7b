/// One tensor's way from one layout to the other: out of the source, through the exchange, into the target.
/// Prepared once, used as often as wanted. How it travels is the subclass's: as it is (plain_transfer.hpp),
/// or under a wire policy, with all rows or with those that V-Major chose (coded_transfer.hpp).
///
/// An exchange is pack, start, wait or test of the request, finish; one at a time. From pack to finish the
/// source, and from start to finish the target, stay untouched and in place. On a device all of it is put on
/// a stream, and finish_on ends it there; the next exchange may then be put behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exchange/exchange.hpp"
#include "layout/layout.hpp"
#include "transfer/transfer_memory.hpp"

namespace dit {

/// Where an exchange stands in a run: what rules of a policy ask for.
struct TransferPlace {
  int layer = 0;
  int step = 0;
  int branch = 0;  ///< guidance branch: 0 conditional, 1 not
  bool operator==(const TransferPlace&) const = default;
};

/// What counts for a layer of a branch that comes for the first time, whatever the step: nobody remembers
/// anything of it yet, as in a run's first step.
[[nodiscard]] constexpr TransferPlace at_first(TransferPlace place) {
  place.step = 0;
  return place;
}

/// Which tensor, which part of each rank's heads, and where all its exchanges meet.
struct TransferPart {
  AttentionTensor tensor = AttentionTensor::query;
  int group = 0;
  int groups = 1;
  int channel = 0;  ///< as in dit_exchange_call
};

/// Where tensors are and how an exchange is started.
struct TransferStart {
  bool blocking = false;        ///< it may run to its end in start
  const char* label = nullptr;  ///< for messages and traces
  int device = 0;
  void* stream = nullptr;           ///< the tensors': the exchange comes behind what is in it
  void* exchange_stream = nullptr;  ///< what the exchange is put on; null: `stream`
  bool has_own = false;             ///< the target has this rank's own block already
  std::shared_ptr<void> owner{};    ///< of host tensors: kept until the exchange is done, also after an error
};

/// What coding under a policy took.
struct TransferTimes {
  double coding_seconds = 0;   ///< coding and decoding, packing included
  double waiting_seconds = 0;  ///< in pack(), for late blocks and for what ranks say to the guard
  int guarded = 0;             ///< exchanges that the guard sent in bf16

  TransferTimes& operator+=(const TransferTimes& other) {
    coding_seconds += other.coding_seconds;
    waiting_seconds += other.waiting_seconds;
    guarded += other.guarded;
    return *this;
  }
};

class TensorTransfer {
 public:
  virtual ~TensorTransfer() = default;
  TensorTransfer(const TensorTransfer&) = delete;
  TensorTransfer& operator=(const TensorTransfer&) = delete;

  /// Throws before anything is done, where pack() cannot be called now: ExchangeError (DIT_ERROR_UNSUPPORTED)
  /// for a stream that is captured, under a policy whose guard watches this exchange.
  virtual void require_startable(const TransferPlace& /*place*/, void* /*stream*/) const {}
  /// Copies or codes what is sent, on a device after what is in the stream. `active`: with V-Major this
  /// rank's rows that travel, ascending over all samples; empty where the policy leaves none behind. Under a
  /// policy with a guard collective, and it waits for what is in the stream.
  virtual void pack(const SourceTensor& source, const TransferPlace& place,
                    std::span<const std::uint32_t> active, void* stream) = 0;
  [[nodiscard]] virtual ExchangeRequest start(const TargetTensor& target, const TransferStart& how) = 0;
  /// After the request is done. On a device it waits for what is still to be done there.
  virtual void finish() = 0;
  /// After a stream waits for the request: puts what is still to be done on that stream, and does not wait.
  virtual void finish_on(void* stream) = 0;

  /// Bytes sent to peers at the context's slow_level or beyond in a layer, the mean over all steps.
  [[nodiscard]] virtual std::uint64_t slow_bytes(int layer) const = 0;
  /// Bytes that buffers take, but for what is remembered and what travels late; and memory of the caller's
  /// for them, host memory that outlives the transfer and its exchanges, given when nothing is under way.
  /// Throws std::invalid_argument when it is short. Without it buffers are allocated at first need.
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  virtual void use_workspace(std::span<std::byte> workspace) = 0;
  /// Since the last call; zeros for a tensor that travels as it is.
  [[nodiscard]] virtual TransferTimes take_times() { return {}; }
  /// Adds the rows that are remembered, of all layers, by their ages in steps.
  virtual void count_ages(std::vector<std::uint64_t>& /*rows_by_age*/) const {}
  /// Waits for what travels beside the exchanges, for later steps. Throws as ExchangeRequest::wait.
  virtual void wait_for_late() {}
  /// What is remembered, when nothing is under way: all layers come for the first time again. On a device
  /// behind what is in the stream.
  virtual void forget(void* /*stream*/) {}
  /// As if exchanges of all layers of a guidance branch had been started, which a replayed graph did.
  virtual void have_travelled(int /*branch*/) {}
  /// What an exchange that is given up may still read and write, but for the source and the target. This
  /// transfer forgets it and takes new memory. What travels for later steps is given up, too.
  [[nodiscard]] virtual TransferBuffers release_buffers() = 0;

  /// The stream of an exchange whose tensors are on `stream`: `own`, which from here on comes behind that,
  /// unless it is null.
  [[nodiscard]] void* exchange_stream(void* stream, void* own);
  /// Whether this rank's own block is in no exchange.
  [[nodiscard]] bool copies_own() const { return own_sent_.elements() > 0; }
  [[nodiscard]] const TensorShape& source_shape() const { return source_shape_; }
  [[nodiscard]] const TensorShape& target_shape() const { return target_shape_; }

 protected:
  /// `memory_kind`: of the tensors. On a device this rank's own block is in no exchange, where `copies_own`:
  /// copy_own() puts it right where it belongs.
  TensorTransfer(ExchangeContext& context, const UlyssesLayout& layout, const TransferPart& part,
                 int memory_kind, bool copies_own);
  [[nodiscard]] ExchangeContext& context() const { return context_; }
  [[nodiscard]] int channel() const { return channel_; }
  [[nodiscard]] const TransferMemory& memory() const { return memory_; }
  [[nodiscard]] bool on_device() const { return memory_kind_ != DIT_MEMORY_HOST; }
  [[nodiscard]] int memory_kind() const { return memory_kind_; }
  /// What the exchange moves.
  [[nodiscard]] const ExchangeLayout& blocks() const { return blocks_; }
  void copy_own(const SourceTensor& source, const TargetTensor& target, std::size_t element_bytes,
                const TransferStart& how) const;
  /// Of blocks for each peer, those that leave the node.
  [[nodiscard]] std::uint64_t slow_bytes_of(std::span<const dit_block> send) const;

 private:
  ExchangeContext& context_;
  int channel_;
  int memory_kind_;
  const TransferMemory& memory_;
  ExchangeLayout blocks_;
  PeerBlock own_sent_, own_received_;  // without rows where they are in the exchange
  std::shared_ptr<void> mark_;         // of exchange_stream(), once it is asked
  TensorShape source_shape_, target_shape_;
};

}  // namespace dit
