/// V-Major's choice on one rank: the rows whose V changed most since they last travelled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/layout.hpp"
#include "transfer/tensor_transfer.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

class ActiveRows {
 public:
  /// `layout`: of one unit, its batch the unit's samples. `units`: each with its own choice, as a guidance
  /// branch. The plan must outlive this.
  ActiveRows(const WirePlan& plan, const UlyssesLayout& layout, int rank, int units, WireElement element);
  /// Bytes of what is kept, beforehand.
  [[nodiscard]] static std::uint64_t bytes(const WirePlan& plan, const UlyssesLayout& layout, int rank,
                                           int units, std::size_t element_bytes);

  /// Before the exchanges of a layer: `value`, this rank's V in the sequence layout. A layer that comes for
  /// the first time is chosen for as in step 0: all its rows travel.
  void choose(int unit, const TransferPlace& place, const SourceTensor& value);
  /// As chosen last: of all samples, ascending. Empty where the plan leaves no rows behind.
  [[nodiscard]] std::span<const std::uint32_t> active(int unit) const;

 private:
  struct Layer {
    std::vector<std::byte> reference;  // each row as it last travelled, dense; empty: rows are never chosen
    std::vector<std::uint16_t> ages;   // of each row, in steps; empty: any will do
    bool seen = false;                 // its rows were chosen, or all travelled
  };
  struct Unit {
    std::vector<Layer> layers;
    std::vector<std::uint32_t> active;
  };
  [[nodiscard]] std::span<const std::byte> dense_rows(const SourceTensor& value);
  [[nodiscard]] std::vector<float> scores(const Layer& layer, std::span<const std::byte> rows) const;
  void note_ages(Layer& layer, std::span<const std::uint32_t> travelled) const;

  const WirePlan& plan_;
  TensorShape shape_;
  WireElement element_;
  std::vector<Unit> units_;
  std::vector<std::byte> dense_;  // scratch
};

}  // namespace dit
