#include "profile/redundancy.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace dit {
namespace {

constexpr std::size_t kMostNumbers = std::size_t{1} << 16U;  // of a tensor: enough for means

std::vector<WireMode> all_modes() {
  std::vector<WireMode> modes;
  for (const char* text :
       {"bf16", "fp8", "residual int8", "residual int4", "residual int2", "residual int1", "skip"}) {
    modes.push_back(parse_wire_mode(text));
  }
  return modes;
}

std::vector<float> some_rows(std::span<const float> values, std::size_t row) {
  const std::size_t rows = values.size() / row;
  const std::size_t every = std::max<std::size_t>(1, (values.size() + kMostNumbers - 1) / kMostNumbers);
  std::vector<float> some;
  for (std::size_t i = 0; i < rows; i += every) {
    some.insert(some.end(), values.begin() + static_cast<std::ptrdiff_t>(i * row),
                values.begin() + static_cast<std::ptrdiff_t>((i + 1) * row));
  }
  return some;
}

double distance(std::span<const float> a, std::span<const float> b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += off * off;
  }
  return std::sqrt(squares);
}

double length(std::span<const float> a) {
  double squares = 0;
  for (const float value : a) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(squares);
}

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

double quantile(std::vector<double>& values, double fraction) {
  if (values.empty()) {
    return 0;
  }
  const auto place = static_cast<std::ptrdiff_t>(fraction * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

}  // namespace

const std::vector<WireMode>& profiled_modes() {
  static const std::vector<WireMode> modes = all_modes();
  return modes;
}

RedundancyProfile::RedundancyProfile(int layers, int steps, float momentum)
    : layers_(layers), steps_(steps), momentum_(momentum) {
  if (layers < 1 || steps < 1 || !(momentum >= 0 && momentum <= 1)) {
    throw std::invalid_argument("a profile of " + std::to_string(layers) + " layers and " +
                                std::to_string(steps) + " steps, momentum " + std::to_string(momentum) +
                                ": expected at least one of each, and 0 to 1");
  }
  tracks_.resize(static_cast<std::size_t>(layers) * kAttentionTensors);
  cells_.resize(tracks_.size() * static_cast<std::size_t>(steps));
}

std::size_t RedundancyProfile::index(AttentionTensor tensor, int layer) const {
  if (layer < 0 || layer >= layers_) {
    throw std::out_of_range("layer " + std::to_string(layer) + " of " + std::to_string(layers_));
  }
  return static_cast<std::size_t>(layer) * kAttentionTensors + static_cast<std::size_t>(tensor);
}

std::size_t RedundancyProfile::place(AttentionTensor tensor, int layer, int step) const {
  if (step < 0 || step >= steps_) {
    throw std::out_of_range("step " + std::to_string(step) + " of " + std::to_string(steps_));
  }
  return index(tensor, layer) * static_cast<std::size_t>(steps_) + static_cast<std::size_t>(step);
}

const RedundancyCell& RedundancyProfile::cell(AttentionTensor tensor, int layer, int step) const {
  return cells_[place(tensor, layer, step)];
}

void RedundancyProfile::add(AttentionTensor tensor, int layer, int step, std::span<const float> values,
                            std::size_t row) {
  if (row == 0 || values.size() % row != 0) {
    throw std::invalid_argument(std::to_string(values.size()) + " numbers in rows of " + std::to_string(row) +
                                ": expected whole rows");
  }
  RedundancyCell& cell = cells_[place(tensor, layer, step)];
  Track& track = tracks_[index(tensor, layer)];
  std::vector<float> now = some_rows(values, row);
  if (step > 0 && track.before.size() != now.size()) {
    throw std::invalid_argument("step " + std::to_string(step) + " has " + std::to_string(now.size()) +
                                " numbers, the one before " + std::to_string(track.before.size()));
  }
  measure(cell, track, now, row, step);
  code(cell, track, now, row);
  track.before_that = std::move(track.before);
  track.before = std::move(now);
}

void RedundancyProfile::measure(RedundancyCell& cell, Track& track, const std::vector<float>& now,
                                std::size_t row, int step) const {
  if (step == 0) {
    cell.change = cell.expected = 1;
    cell.cosine = 0;
    return;
  }
  const double whole = length(now);
  cell.change = ratio(distance(now, track.before), whole);
  double product = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    product += static_cast<double>(now[i]) * static_cast<double>(track.before[i]);
  }
  cell.cosine = ratio(product, whole * length(track.before));
  std::vector<float> expected = track.before;
  for (std::size_t i = 0; i < expected.size() && step > 1; ++i) {
    expected[i] += momentum_ * (track.before[i] - track.before_that[i]);
  }
  cell.expected = ratio(distance(now, expected), whole);
  std::vector<double> tokens;
  for (std::size_t at = 0; at < now.size(); at += row) {
    const auto token = std::span(now).subspan(at, row);
    tokens.push_back(ratio(distance(token, std::span(track.before).subspan(at, row)), length(token)));
  }
  cell.token_low = quantile(tokens, 0.1);
  cell.token_median = quantile(tokens, 0.5);
  cell.token_high = quantile(tokens, 0.9);
}

void RedundancyProfile::code(RedundancyCell& cell, Track& track, const std::vector<float>& now,
                             std::size_t row) const {
  const std::vector<WireMode>& modes = profiled_modes();
  track.memories.resize(modes.size());
  cell.errors.clear();
  const auto rows = static_cast<std::int64_t>(now.size() / row);
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (modes[i].skip) {
      cell.errors.push_back(cell.expected);
      continue;
    }
    Track::Memory& memory = track.memories[i];
    memory.value.resize(now.size());
    memory.digits.resize(now.size());
    memory.change.resize(momentum_ > 0 ? now.size() : 0);
    const Codec codec(modes[i].format, WireElement::fp32);
    std::vector<std::byte> bytes(codec.encoded_bytes(rows, static_cast<std::int64_t>(row)));
    std::vector<float> came(now.size());
    codec.encode(rows, static_cast<std::int64_t>(row), std::as_bytes(std::span(now)),
                 {memory.value, memory.digits, memory.change, momentum_}, modes[i].residual, bytes,
                 std::as_writable_bytes(std::span(came)));
    cell.errors.push_back(ratio(distance(now, came), length(now)));
  }
}

}  // namespace dit
