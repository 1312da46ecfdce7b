#include "transfer/active_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "wire/codec.hpp"
#include "wire/pack.hpp"
#include "wire/v_major.hpp"

namespace dit {
namespace {

std::int64_t rows_of(const TensorShape& shape) {
  return shape.batch * shape.rows;
}

/// In an order that every machine keeps, and that lets a compiler add several at once.
float change_of(std::span<const float> now, std::span<const float> before) {
  constexpr std::size_t kSums = 16;
  std::array<float, kSums> sums{};
  for (std::size_t i = 0; i < now.size(); ++i) {
    sums[i % kSums] += std::abs(now[i] - before[i]);
  }
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      sums[i] += sums[i + half];
    }
  }
  return sums[0];
}

}  // namespace

ActiveRows::ActiveRows(const WirePlan& plan, const UlyssesLayout& layout, int rank, int units,
                       WireElement element)
    : plan_(plan),
      shape_(layout.sequence_shape(AttentionTensor::value, rank)),
      element_(element),
      units_(static_cast<std::size_t>(units)) {
  const auto rows = static_cast<std::size_t>(rows_of(shape_));
  for (Unit& unit : units_) {
    for (int layer = 0; layer < plan.shape().layers; ++layer) {
      Layer made;
      if (plan.uses_v_major(layer)) {
        made.reference.resize(static_cast<std::size_t>(shape_.elements()) * bytes_of(element));
      }
      made.ages.resize(plan.policy().most_age > 0 ? rows : 0);
      unit.layers.push_back(std::move(made));
    }
  }
}

std::uint64_t ActiveRows::bytes(const WirePlan& plan, const UlyssesLayout& layout, int rank, int units,
                                std::size_t element_bytes) {
  std::uint64_t layers = 0;
  for (int layer = 0; layer < plan.shape().layers; ++layer) {
    layers += plan.uses_v_major(layer) ? 1 : 0;
  }
  const auto elements =
      static_cast<std::uint64_t>(layout.sequence_shape(AttentionTensor::value, rank).elements());
  return layers * static_cast<std::uint64_t>(units) * elements * element_bytes;
}

std::span<const std::byte> ActiveRows::dense_rows(const SourceTensor& value) {
  if (value.is_dense()) {
    return value.bytes;
  }
  const PeerBlock all{shape_.row_elements(), {{0, rows_of(shape_), shape_.row_elements()}}};
  dense_.resize(static_cast<std::size_t>(shape_.elements()) * bytes_of(element_));
  pack(std::span(&all, 1), bytes_of(element_), value, dense_);
  return dense_;
}

std::vector<float> ActiveRows::scores(const Layer& layer, std::span<const std::byte> rows) const {
  const auto elements = static_cast<std::size_t>(shape_.row_elements());
  const std::size_t bytes = elements * bytes_of(element_);
  std::vector<float> now(elements), before(elements), scores;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows_of(shape_)); ++row) {
    load_elements(rows.subspan(row * bytes, bytes), element_, now);
    load_elements(std::span(layer.reference).subspan(row * bytes, bytes), element_, before);
    const bool old = !layer.ages.empty() && layer.ages[row] + 1 >= plan_.policy().most_age;
    scores.push_back(old ? std::numeric_limits<float>::infinity() : change_of(now, before));
  }
  return scores;
}

void ActiveRows::note_ages(Layer& layer, std::span<const std::uint32_t> travelled) const {
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

void ActiveRows::choose(int unit, const TransferPlace& asked, const SourceTensor& value) {
  std::vector<std::uint32_t>& active = units_[static_cast<std::size_t>(unit)].active;
  Layer& layer = units_[static_cast<std::size_t>(unit)].layers[static_cast<std::size_t>(asked.layer)];
  const TransferPlace place = std::exchange(layer.seen, true) ? asked : at_first(asked);
  active.clear();
  if (!plan_.uses_v_major(place.layer)) {
    return;
  }
  const std::optional<double> ratio = plan_.v_major(place.layer, place.step, place.branch);
  if (!ratio) {
    if (plan_.brings_all_values(place.layer, place.step, place.branch)) {
      std::ranges::copy(dense_rows(value).first(layer.reference.size()), layer.reference.begin());
      std::fill(layer.ages.begin(), layer.ages.end(), std::uint16_t{0});
    } else {
      note_ages(layer, {});
    }
    return;
  }
  const std::span<const std::byte> rows = dense_rows(value);
  const std::vector<float> all = scores(layer, rows);
  const auto tokens = static_cast<std::size_t>(shape_.rows);
  for (std::int64_t sample = 0; sample < shape_.batch; ++sample) {
    const std::size_t first = static_cast<std::size_t>(sample) * tokens;
    for (const std::uint32_t row : choose_active_rows(std::span(all).subspan(first, tokens), *ratio)) {
      active.push_back(static_cast<std::uint32_t>(first) + row);
    }
  }
  // The reference keeps what a row was when it last travelled: small drifts add up until they are noticed.
  const std::size_t bytes = static_cast<std::size_t>(shape_.row_elements()) * bytes_of(element_);
  for (const std::uint32_t row : active) {
    std::memcpy(layer.reference.data() + row * bytes, rows.data() + row * bytes, bytes);
  }
  note_ages(layer, active);
}

std::span<const std::uint32_t> ActiveRows::active(int unit) const {
  return units_[static_cast<std::size_t>(unit)].active;
}

}  // namespace dit
