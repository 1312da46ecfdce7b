/// A wire policy on the ranks of a context: how each tensor travels to each peer, looked up once for an
/// exchange; the same on all ranks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "exchange/exchange.hpp"
#include "layout/layout.hpp"
#include "transfer/tensor_transfer.hpp"
#include "wire/coded_blocks.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

/// How a tensor travels in one layer, step and branch.
struct ResolvedWire {
  std::vector<WireMode> by_level;  ///< with each level's parts of the tokens, as of WirePlan::parts
  std::vector<WireMode> by_block;  ///< of WireRun::blocks
  bool exact = true;               ///< on all levels
  bool late = false;               ///< on some level: all ranks then start an exchange of late blocks, too
  bool watched = false;            ///< the guard looks at it
  std::uint64_t number = 0;        ///< equal for equal modes; below WireRun's number of them
};

class WireRun {
 public:
  /// `whole`: the context whose levels the policy means; `context`, the ranks that share a branch, may be a
  /// part of it. Takes layout ids: collective in order.
  WireRun(const WirePolicy& policy, int layers, int steps, const ExchangeContext& whole,
          ExchangeContext& context, const UlyssesLayout& layout, int groups, WireElement element);

  /// Throws std::invalid_argument that names layer, step or branch when the run has not so many.
  [[nodiscard]] const ResolvedWire& resolve(AttentionTensor tensor, const TransferPlace& place) const;
  /// The same where the guard found too much left behind: what would be approximated travels in bf16.
  [[nodiscard]] const ResolvedWire& guarded(const ResolvedWire& resolved) const;
  /// Every way in which some tensor travels at some place, each once.
  [[nodiscard]] std::span<const ResolvedWire> all() const { return resolved_; }
  /// The first step in which all tensors of all layers travel as in `step`: what is coded in one of them by a
  /// CUDA graph may be coded by it in the other. -1 where the host takes part in the policy in some step: by
  /// a guard, rows that are chosen, late blocks.
  [[nodiscard]] int first_alike(int step, int branch) const;
  /// As in dit_exchange_call: equal for exchanges of equal sizes.
  [[nodiscard]] std::uint64_t layout_id(AttentionTensor tensor, int group, const ResolvedWire& resolved,
                                        WirePart part) const;

  [[nodiscard]] const WirePlan& plan() const { return plan_; }
  [[nodiscard]] const UlyssesLayout& layout() const { return layout_; }
  [[nodiscard]] int groups() const { return groups_; }
  [[nodiscard]] WireElement element() const { return element_; }
  /// Whether any end of any link remembers the tensor: the same on all ranks.
  [[nodiscard]] bool remembers(AttentionTensor tensor) const;
  /// What coders code: the blocks of all peers, each peer's text before its image where rules tell them
  /// apart.
  [[nodiscard]] ExchangeLayout blocks(AttentionTensor tensor, int group = 0) const;
  [[nodiscard]] std::size_t blocks_of_peer() const { return plan_.parts().size(); }
  /// Of each tensor's rows that travel, on all ranks together, those that are text's.
  [[nodiscard]] std::array<double, kAttentionTensors> text_shares() const;
  /// Which of them are remembered in this layer.
  [[nodiscard]] PeerFlags remembered(AttentionTensor tensor, int layer) const;
  [[nodiscard]] SampleRows sample_rows(AttentionTensor tensor) const;
  [[nodiscard]] MemoryOptions memory_options() const;
  /// Of all tensors, groups and layers; `units`: as many remember by themselves.
  [[nodiscard]] CacheBytes memory(int units) const;
  /// Of the buffers of late blocks, which are kept until the layer's next step: at most so many, as above.
  [[nodiscard]] std::uint64_t late_bytes(int units) const;

 private:
  [[nodiscard]] std::uint64_t late_bytes_of(AttentionTensor tensor, int group) const;
  void resolve_layer(AttentionTensor tensor, int layer);
  [[nodiscard]] std::uint32_t number_of(std::vector<WireMode> by_level);
  [[nodiscard]] bool needs_host() const;
  [[nodiscard]] bool are_alike(int step, int other, int branch) const;
  [[nodiscard]] std::size_t index_of(AttentionTensor tensor, const TransferPlace& place) const;

  WirePlan plan_;
  UlyssesLayout layout_;
  int rank_, groups_;
  WireElement element_;
  std::vector<int> peer_levels_;          // at which each peer is reached, by `whole`'s levels
  std::vector<ResolvedWire> resolved_;    // each once
  std::vector<std::uint32_t> guarded_;    // of each of them
  std::vector<std::uint32_t> at_places_;  // of each tensor, layer, step and branch
  std::uint64_t first_id_ = 0;
};

/// What a rank must remember of blocks, before anything is allocated. `peer_levels`: at which it reaches each
/// rank; `units`: as many remember by themselves.
[[nodiscard]] CacheBytes wire_memory(const WirePlan& plan, const UlyssesLayout& layout, int rank, int groups,
                                     int units, std::span<const int> peer_levels);

}  // namespace dit
