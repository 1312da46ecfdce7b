/// V-Major on one rank: which rows changed, and the exchanges of selective steps. What was received stays in
/// the buffers of the full exchanges (ParallelForward), which are the caches.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <vector>

#include "engine/tensor_exchange.hpp"
#include "exchange/exchange.hpp"
#include "layout/layout.hpp"
#include "wire/active_blocks.hpp"
#include "wire/v_major.hpp"

namespace dit {

/// The level from which on only active rows travel: the policy's, or the first that leaves a node. `context`
/// may be a part of `whole` and have fewer levels; names and their order are `whole`'s. Throws ExchangeError
/// that lists names.
[[nodiscard]] int boundary_level(const VMajorPolicy& policy, const ExchangeContext& whole,
                                 const ExchangeContext& context);

class VMajorExchange {
 public:
  struct Shape {
    int layers = 0;
    int units = 0;
    int groups = 0;
    int boundary = 0;
    at::ScalarType dtype = at::kFloat;
    bool narrow = false;  ///< what travels beyond the boundary is bf16
  };
  /// `layout`: of one unit, its batch the unit's samples. The context must outlive this.
  VMajorExchange(const UlyssesLayout& layout, ExchangeContext& context, const Shape& shape);

  /// A full step: every row of `value` [batch, tokens, heads, head_dim] travels.
  void sent_in_full(int unit, int layer, const at::Tensor& value, int step);
  /// A selective step begins: of each sample the fraction `ratio` of rows, that changed least since they were
  /// last sent, stays. All ranks give the same.
  void begin(double ratio);
  void choose(int unit, int layer, const at::Tensor& value);
  /// The exchange of one tensor; valid after the unit's choose().
  void pack(int unit, AttentionTensor tensor, int group, const at::Tensor& source);
  [[nodiscard]] ExchangeRequest start(int unit, AttentionTensor tensor, int group, bool blocking,
                                      const char* label);
  /// Active rows to their places among the cached ones.
  void arrived(int unit, int layer, AttentionTensor tensor, int group, const TensorExchange& full,
               const Received& cached, int step);

  /// Age in steps of the oldest row that any layer and sample uses.
  [[nodiscard]] int oldest(int step) const;
  /// Of all ranks' rows, since the last call: the fraction that was active.
  [[nodiscard]] double take_active_fraction();

 private:
  struct Layer {
    at::Tensor reference;       // [batch * tokens, heads * head_dim]: each row as it was last sent
    std::vector<RowAges> ages;  // per sample, of all tokens
  };
  struct Wire {
    ActiveBlocks blocks;
    std::vector<std::byte> send, recv;
  };
  struct Unit {
    std::vector<Layer> layers;
    std::vector<std::uint32_t> active;  // own rows
    std::vector<Wire> wires;            // [tensor][group]
  };
  [[nodiscard]] Unit make_unit(const Shape& shape, const std::vector<bool>& selected) const;
  [[nodiscard]] std::int64_t rows_of(int rank) const;
  [[nodiscard]] Wire& wire(int unit, AttentionTensor tensor, int group);
  [[nodiscard]] std::uint64_t layout_id(AttentionTensor tensor, int group) const;
  void note_ages(Layer& layer, const Wire& value, int step) const;
  void count_active();

  const UlyssesLayout layout_;
  ExchangeContext& context_;
  std::size_t groups_;
  int aged_group_ = 0;  // the head group by whose V ages are known: the first in which this rank has heads
  std::vector<Unit> units_;
  double ratio_ = 0;
  std::map<double, std::uint64_t> layout_ids_;  // first one, of a ratio's exchanges
  std::uint64_t active_rows_ = 0;
  std::uint64_t seen_rows_ = 0;
};

}  // namespace dit
