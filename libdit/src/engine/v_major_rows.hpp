/// V-Major's choice on one rank: the rows whose V changed most since they last travelled.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "engine/coded_exchange.hpp"
#include "layout/layout.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

class VMajorRows {
 public:
  /// `layout`: of one unit, its batch the unit's samples. The plan must outlive this.
  VMajorRows(const WirePlan& plan, const UlyssesLayout& layout, int rank, int units, at::ScalarType dtype);
  /// Bytes of what is kept, beforehand.
  [[nodiscard]] static std::uint64_t bytes(const WirePlan& plan, const UlyssesLayout& layout, int rank,
                                           int units, std::size_t element_bytes);

  /// Before the exchanges of a layer: `value`, this rank's V [batch, tokens, heads, head_dim].
  void choose(int unit, const WirePlace& place, const at::Tensor& value);
  /// As chosen last: of all samples, ascending. Empty where the plan leaves no rows behind.
  [[nodiscard]] std::span<const std::uint32_t> active(int unit) const;

 private:
  struct Layer {
    at::Tensor reference;             // [batch * tokens, heads * head_dim]: each row as it last travelled
    std::vector<std::uint16_t> ages;  // of each row, in steps; empty: any will do
  };
  struct Unit {
    std::vector<Layer> layers;
    std::vector<std::uint32_t> active;
  };
  [[nodiscard]] std::vector<float> scores(const Layer& layer, const at::Tensor& rows) const;
  void note_ages(Layer& layer, std::span<const std::uint32_t> travelled) const;

  const WirePlan& plan_;
  std::int64_t samples_, tokens_;
  std::vector<Unit> units_;
};

}  // namespace dit
