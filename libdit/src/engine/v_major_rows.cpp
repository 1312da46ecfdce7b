#include "engine/v_major_rows.hpp"

#include <algorithm>
#include <limits>

#include "wire/v_major.hpp"

namespace dit {
namespace {

std::int64_t row_elements(const UlyssesLayout& layout) {
  return layout.shape().kv_heads * layout.shape().head_dim;
}

}  // namespace

VMajorRows::VMajorRows(const WirePlan& plan, const UlyssesLayout& layout, int rank, int units,
                       at::ScalarType dtype)
    : plan_(plan),
      samples_(layout.shape().batch),
      tokens_(layout.sequence_rows(rank)),
      units_(static_cast<std::size_t>(units)) {
  const std::int64_t rows = samples_ * tokens_;
  const auto aged = static_cast<std::size_t>(plan.policy().most_age > 0 ? rows : 0);
  for (Unit& unit : units_) {
    for (int layer = 0; layer < plan.shape().layers; ++layer) {
      const std::int64_t kept = plan.uses_v_major(layer) ? rows : 0;
      unit.layers.push_back(
          {at::zeros({kept, row_elements(layout)}, dtype), std::vector<std::uint16_t>(aged)});
    }
  }
}

std::uint64_t VMajorRows::bytes(const WirePlan& plan, const UlyssesLayout& layout, int rank, int units,
                                std::size_t element_bytes) {
  const std::int64_t rows = layout.shape().batch * layout.sequence_rows(rank);
  std::uint64_t layers = 0;
  for (int layer = 0; layer < plan.shape().layers; ++layer) {
    layers += plan.uses_v_major(layer) ? 1 : 0;
  }
  return layers * static_cast<std::uint64_t>(units) *
         static_cast<std::uint64_t>(rows * row_elements(layout)) * element_bytes;
}

std::vector<float> VMajorRows::scores(const Layer& layer, const at::Tensor& rows) const {
  const at::Tensor change = (rows.to(at::kFloat) - layer.reference.to(at::kFloat)).abs().sum(1).contiguous();
  std::vector<float> scores(change.data_ptr<float>(), change.data_ptr<float>() + change.numel());
  for (std::size_t row = 0; row < layer.ages.size(); ++row) {
    if (layer.ages[row] + 1 >= plan_.policy().most_age) {
      scores[row] = std::numeric_limits<float>::infinity();
    }
  }
  return scores;
}

void VMajorRows::note_ages(Layer& layer, std::span<const std::uint32_t> travelled) const {
  if (layer.ages.empty()) {
    return;
  }
  for (std::uint16_t& age : layer.ages) {
    age = static_cast<std::uint16_t>(std::min<int>(age + 1, std::numeric_limits<std::uint16_t>::max()));
  }
  for (const std::uint32_t row : travelled) {
    layer.ages[row] = 0;
  }
}

void VMajorRows::choose(int unit, const WirePlace& place, const at::Tensor& value) {
  std::vector<std::uint32_t>& active = units_[static_cast<std::size_t>(unit)].active;
  Layer& layer = units_[static_cast<std::size_t>(unit)].layers[static_cast<std::size_t>(place.layer)];
  active.clear();
  if (!plan_.uses_v_major(place.layer)) {
    return;
  }
  const at::Tensor rows = value.reshape(layer.reference.sizes());
  const std::optional<double> ratio = plan_.v_major(place.layer, place.step, place.branch);
  if (!ratio) {
    if (plan_.brings_all_values(place.layer, place.step, place.branch)) {
      layer.reference.copy_(rows);
      std::fill(layer.ages.begin(), layer.ages.end(), std::uint16_t{0});
    } else {
      note_ages(layer, {});
    }
    return;
  }
  const std::vector<float> all = scores(layer, rows);
  const auto tokens = static_cast<std::size_t>(tokens_);
  for (std::int64_t sample = 0; sample < samples_; ++sample) {
    const std::size_t first = static_cast<std::size_t>(sample) * tokens;
    for (const std::uint32_t row : choose_active_rows(std::span(all).subspan(first, tokens), *ratio)) {
      active.push_back(static_cast<std::uint32_t>(first) + row);
    }
  }
  // The reference keeps what a row was when it last travelled: small drifts add up until they are noticed.
  const at::Tensor index = at::empty({static_cast<std::int64_t>(active.size())}, at::kLong);
  std::copy(active.begin(), active.end(), index.data_ptr<std::int64_t>());
  layer.reference.index_copy_(0, index, rows.index_select(0, index));
  note_ages(layer, active);
}

std::span<const std::uint32_t> VMajorRows::active(int unit) const {
  return units_[static_cast<std::size_t>(unit)].active;
}

}  // namespace dit
