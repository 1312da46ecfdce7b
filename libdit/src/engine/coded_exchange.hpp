/// A tensor's exchanges under a wire policy, on one rank: packing and coding, the exchange, decoding and
/// unpacking. Buffers and what is remembered are allocated once.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "exchange/exchange.hpp"
#include "layout/layout.hpp"
#include "wire/coded_blocks.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

/// Tensors of which a policy says something: fp32 and bf16. Throws std::logic_error for others.
[[nodiscard]] WireElement wire_element(at::ScalarType dtype);

/// Where an exchange stands.
struct WirePlace {
  int layer = 0;
  int step = 0;
  int branch = 0;
  bool guarded = false;  ///< what would be approximated travels in bf16
};

/// A policy on the ranks of a context: what is the same for all its exchanges.
class WireRun {
 public:
  /// `whole`: the context whose levels the policy means; `context`, the ranks that share a branch, may be a
  /// part of it. Takes layout ids: collective in order.
  WireRun(const WirePolicy& policy, int layers, int steps, const ExchangeContext& whole,
          ExchangeContext& context, const UlyssesLayout& layout, int groups, at::ScalarType dtype);

  [[nodiscard]] const WirePlan& plan() const { return plan_; }
  [[nodiscard]] std::vector<WireMode> modes(WireTensor tensor, const WirePlace& place) const;
  /// As in dit_exchange_call: equal for exchanges of equal sizes.
  [[nodiscard]] std::uint64_t layout_id(WireTensor tensor, int group, const WirePlace& place,
                                        WirePart part) const;
  /// Whether blocks between any ranks are late: all ranks then start an exchange of them.
  [[nodiscard]] bool is_late(WireTensor tensor, const WirePlace& place) const;
  /// Peers whose blocks are remembered in this layer.
  [[nodiscard]] PeerFlags remembered(WireTensor tensor, int layer) const;
  [[nodiscard]] ExchangeLayout layout_of(WireTensor tensor, int group) const;
  [[nodiscard]] SampleRows sample_rows(WireTensor tensor) const;
  [[nodiscard]] MemoryOptions memory_options() const;
  [[nodiscard]] WireElement element() const { return element_; }
  /// Whether the guard looks at an exchange: between some ranks it is approximated.
  [[nodiscard]] bool is_watched(WireTensor tensor, const WirePlace& place) const;

 private:
  [[nodiscard]] std::vector<WireMode> plain_modes(WireTensor tensor, const WirePlace& place) const;
  [[nodiscard]] static std::vector<WireMode> guarded(std::vector<WireMode> modes);
  [[nodiscard]] std::vector<WireMode> modes_by_level(WireTensor tensor, const WirePlace& place) const;

  WirePlan plan_;
  UlyssesLayout layout_;
  int rank_, groups_;
  WireElement element_;
  std::vector<int> peer_levels_;               // at which each peer is reached, by `whole`'s levels
  std::vector<std::vector<WireMode>> tables_;  // modes by level, each once
  std::uint64_t first_id_ = 0;
};

class CodedExchange {
 public:
  /// `run` must outlive this.
  CodedExchange(const WireRun& run, WireTensor tensor, int group);

  /// With a guard collective: what one rank leaves too much of behind all ranks send in more bits. `active`:
  /// of V-Major.
  void pack(ExchangeContext& context, const at::Tensor& source, const WirePlace& place,
            std::span<const std::uint32_t> active);
  /// The exchange whose blocks this step uses; that of late blocks goes on beside it until the layer's next
  /// pack().
  [[nodiscard]] ExchangeRequest start(ExchangeContext& context, bool blocking, const char* label);
  /// After the wait.
  void finish(const at::Tensor& target);

  /// Since the last call: exchanges that the guard sent in bf16.
  [[nodiscard]] int take_guarded();
  /// Since the last call: spent in coding and decoding, packing included.
  [[nodiscard]] double take_seconds();
  /// Since the last call: spent in pack() in waiting for late blocks and for what ranks say to the guard.
  [[nodiscard]] double take_waiting_seconds();
  /// Bytes sent to peers at `slow_level` or beyond, the mean over all steps.
  [[nodiscard]] std::uint64_t slow_bytes(const ExchangeContext& context, int layer) const;
  /// Adds the rows of all layers by their ages in steps.
  void count_ages(std::vector<std::uint64_t>& rows_by_age) const;

 private:
  struct Late {
    std::vector<std::byte> send, recv;
    std::vector<WireMode> modes;
    CodedBlocks::Sizes sizes;
    ExchangeRequest request;
    bool under_way = false;
  };
  [[nodiscard]] dit_exchange_call call_of(WirePart part, const CodedBlocks::Sizes& sizes,
                                          const char* label) const;
  [[nodiscard]] ExchangeMemory* memory() { return memories_[static_cast<std::size_t>(place_.layer)].get(); }
  void finish_late(int layer);
  /// Relative L2 of what is left behind.
  [[nodiscard]] double encode(std::span<const std::byte> tensor, std::span<const std::uint32_t> active,
                              bool watched);
  [[nodiscard]] bool is_any_beyond(ExchangeContext& context, double left_behind);
  void pack_late(std::span<const std::byte> tensor, CodedBlocks::Loss* loss);

  const WireRun* run_;
  WireTensor tensor_;
  int group_;
  CodedBlocks blocks_;
  std::vector<std::unique_ptr<ExchangeMemory>> memories_;  // by layer; null: nothing is remembered
  std::vector<std::byte> send_, recv_;
  std::map<int, Late> late_;  // by layer
  // Of what is under way:
  std::vector<WireMode> modes_;
  CodedBlocks::Sizes sizes_;
  WirePlace place_;
  double seconds_ = 0;
  double waiting_seconds_ = 0;
  int guarded_ = 0;
  ExchangeMemory::Sent kept_;  // while the guard looks
};

/// What a rank must remember of blocks, before anything is allocated. `peer_levels`: at which it reaches each
/// rank.
[[nodiscard]] CacheBytes wire_memory(const WirePlan& plan, const UlyssesLayout& layout, int rank, int groups,
                                     int units, std::span<const int> peer_levels);

}  // namespace dit
