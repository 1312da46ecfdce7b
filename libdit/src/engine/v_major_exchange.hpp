/// V-Major on one rank: which rows changed, telling the others, and what each exchange sends. What was
/// received stays in the buffers of the exchanges (ParallelForward), which are the caches.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "exchange/exchange.hpp"
#include "layout/layout.hpp"
#include "wire/row_selection.hpp"
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
  };
  /// `layout`: of one unit, its batch the unit's samples. The context must outlive this.
  VMajorExchange(const UlyssesLayout& layout, ExchangeContext& context, const Shape& shape);

  /// A full step: every row of `value` [batch, tokens, heads, head_dim] travels.
  void sent_in_full(int unit, int layer, const at::Tensor& value, int step);
  /// A selective step: the fraction `ratio` of each sample's rows that changed least since they were last
  /// sent stays.
  void choose(int unit, int layer, const at::Tensor& value, double ratio);
  [[nodiscard]] ExchangeRequest start_mask(int unit, bool blocking, const char* label);
  void mask_arrived(int unit, int layer, int step);
  /// For the scatter of a tensor; valid from mask_arrived until the unit's next one.
  [[nodiscard]] const dit_row_selection* selection(int unit, AttentionTensor tensor, int group) const;

  /// Age in steps of the oldest row that any layer and sample uses.
  [[nodiscard]] int oldest(int step) const;
  /// Of all ranks' rows, since the last call: the fraction that was active.
  [[nodiscard]] double take_active_fraction();

 private:
  struct Layer {
    at::Tensor reference;       // [batch * tokens, heads * head_dim]: each row as it was last sent
    std::vector<RowAges> ages;  // per sample, of all tokens
  };
  struct Unit {
    std::vector<Layer> layers;
    std::vector<std::uint8_t> own_mask;
    std::vector<std::uint8_t> masks;  // of all ranks
    std::vector<dit_block> send_blocks, recv_blocks;
    std::vector<RowSelection> selections;  // [tensor][group]
  };
  [[nodiscard]] Unit make_unit(const Shape& shape) const;
  [[nodiscard]] std::int64_t rows_of(int rank) const;
  void note_ages(Layer& layer, const std::vector<RowFlags>& active, int step) const;

  const UlyssesLayout layout_;
  ExchangeContext& context_;
  int boundary_;
  std::uint64_t mask_layout_id_;
  std::size_t groups_;
  std::vector<Unit> units_;
  std::uint64_t active_rows_ = 0;
  std::uint64_t seen_rows_ = 0;
};

}  // namespace dit
