#include "transfer/device/device_active_rows.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "wire/pack.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

template <typename Number>
Number* numbers_of(const TransferBuffer& buffer) {
  return reinterpret_cast<Number*>(buffer.data());
}

}  // namespace

DeviceActiveRows::DeviceActiveRows(const WirePlan& plan, const UlyssesLayout& layout, int rank, int units,
                                   WireElement element, const TransferMemory& memory, CodeLauncher& launcher)
    : plan_(plan),
      shape_(layout.sequence_shape(AttentionTensor::value, rank)),
      all_{shape_.row_elements(), {{0, shape_.batch * shape_.rows, shape_.row_elements()}}},
      element_(element),
      memory_(memory),
      launcher_(launcher),
      units_(static_cast<std::size_t>(units)) {
  const auto words = std::max<std::size_t>(static_cast<std::size_t>(all_.rows()), 1) * sizeof(std::uint32_t);
  scores_ = memory.allocate(words);
  others_ = memory.allocate(words);
  for (Unit& unit : units_) {
    unit.active = memory.allocate(words);
    for (int layer = 0; layer < plan.shape().layers; ++layer) {
      Layer made;
      if (plan.uses_v_major(layer)) {
        const auto elements = std::max<std::size_t>(static_cast<std::size_t>(shape_.elements()), 1);
        made.reference = memory.allocate(elements * bytes_of(element));
        made.steps = plan.policy().most_age > 0 ? memory.allocate(words) : TransferBuffer{};
      }
      unit.layers.push_back(std::move(made));
    }
  }
}

void DeviceActiveRows::choose(int unit, const TransferPlace& asked, const SourceTensor& value, void* stream) {
  Unit& own = units_[static_cast<std::size_t>(unit)];
  Layer& layer = own.layers[static_cast<std::size_t>(asked.layer)];
  const TransferPlace place = std::exchange(layer.seen, true) ? asked : at_first(asked);
  own.count = 0;
  if (!plan_.uses_v_major(place.layer) || all_.elements() == 0) {
    return;
  }
  const std::optional<double> ratio = plan_.v_major(place.layer, place.step, place.branch);
  if (ratio) {
    return choose_some(own, layer, value, *ratio, stream);
  }
  layer.ages.next();
  if (plan_.brings_all_values(place.layer, place.step, place.branch)) {
    layer.ages.all_travel();
    memory_.pack(std::span(&all_, 1), bytes_of(element_), value, layer.reference, stream);
  }
}

void DeviceActiveRows::choose_some(Unit& unit, Layer& layer, const SourceTensor& value, double ratio,
                                   void* stream) {
  require_in_tensor(std::span(&all_, 1), bytes_of(element_), value);
  const auto rows = static_cast<std::size_t>(shape_.rows);
  const auto travelling = static_cast<std::size_t>(active_row_count(shape_.rows, ratio));
  const std::int64_t old_step = layer.ages.old_step(plan_.policy().most_age);
  layer.ages.next();
  CodeQueue queue;
  for (std::size_t sample = 0; sample < static_cast<std::size_t>(shape_.batch); ++sample) {
    const std::size_t first = sample * rows;
    RowChoice choice;
    choice.job = job_of(WireFormat::full, element_, place_of(all_, element_, value), all_.rows(), nullptr);
    choice.rows = static_cast<std::uint32_t>(rows);
    choice.travelling = static_cast<std::uint32_t>(travelling);
    choice.scores = numbers_of<float>(scores_) + first;
    choice.active = numbers_of<std::uint32_t>(unit.active) + sample * travelling;
    choice.others = numbers_of<std::uint32_t>(others_) + sample * (rows - travelling);
    choice.steps = layer.steps.size() > 0 ? numbers_of<std::uint32_t>(layer.steps) + first : nullptr;
    choice.step = layer.ages.now();
    choice.old_step = old_step;
    choice.before = layer.reference.data();
    choice.first_row = static_cast<std::uint32_t>(first);
    queue.add(RowWork::compare, choice);
  }
  queue.launch(launcher_, stream);
  unit.count = travelling * static_cast<std::size_t>(shape_.batch);
}

std::span<const std::uint32_t> DeviceActiveRows::active(int unit) const {
  const Unit& own = units_[static_cast<std::size_t>(unit)];
  return {numbers_of<const std::uint32_t>(own.active), own.count};
}

}  // namespace dit
