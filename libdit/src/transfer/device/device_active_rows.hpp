/// V-Major's choice on a device: as ActiveRows makes it, without the host seeing the rows; how many they are
/// it knows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transfer/tensor_transfer.hpp"
#include "transfer/transfer_memory.hpp"
#include "wire/device/code_launcher.hpp"
#include "wire/device/row_steps.hpp"
#include "wire/wire_policy.hpp"

namespace dit {

class DeviceActiveRows {
 public:
  /// As of ActiveRows. `memory` and `launcher`: the device's; they and the plan outlive this.
  DeviceActiveRows(const WirePlan& plan, const UlyssesLayout& layout, int rank, int units,
                   WireElement element, const TransferMemory& memory, CodeLauncher& launcher);

  /// After what is in the stream, without waiting.
  void choose(int unit, const TransferPlace& place, const SourceTensor& value, void* stream);
  /// In memory of the device, valid behind the choice in its stream, until the next one of the unit.
  [[nodiscard]] std::span<const std::uint32_t> active(int unit) const;

 private:
  struct Layer {
    TransferBuffer reference;  // each row as it last travelled, dense; empty: rows are never chosen
    TransferBuffer steps;      // of each row; empty: any age will do
    RowSteps ages;
    bool seen = false;
  };
  struct Unit {
    std::vector<Layer> layers;
    TransferBuffer active;
    std::size_t count = 0;
  };
  void choose_some(Unit& unit, Layer& layer, const SourceTensor& value, double ratio, void* stream);

  const WirePlan& plan_;
  TensorShape shape_;
  PeerBlock all_;  // rows, as one block
  WireElement element_;
  const TransferMemory& memory_;
  CodeLauncher& launcher_;
  std::vector<Unit> units_;
  TransferBuffer scores_, others_;
};

}  // namespace dit
