#include "field_set.hpp"

#include <ATen/Context.h>

#include <cmath>
#include <stdexcept>

#include "sampling/cpu_generator.hpp"

namespace dit::gray_scott {
namespace {

double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

/// One number per channel, to be applied to [count, channels, height, width].
at::Tensor per_channel(const std::vector<ChannelScale>& scales, double ChannelScale::*member,
                       const at::Tensor& like) {
  if (static_cast<std::int64_t>(scales.size()) != like.size(1)) {
    throw std::invalid_argument("fields have " + std::to_string(like.size(1)) + " channels: expected " +
                                std::to_string(scales.size()));
  }
  std::vector<double> values;
  for (const ChannelScale& scale : scales) {
    values.push_back(scale.*member);
  }
  return at::tensor(values, at::kDouble).to(like.options()).reshape({-1, 1, 1});
}

/// Source coordinate of each of `size` pixels along one axis, per sample: flipped or not, shifted: [count,
/// size].
at::Tensor moved_axis(std::int64_t count, std::int64_t size, at::Generator& generator,
                      const at::TensorOptions& place) {
  const at::Tensor pixel = at::arange(size, place).unsqueeze(0);
  const at::Tensor flip = at::randint(2, {count, 1}, generator, place);
  const at::Tensor shift = at::randint(size, {count, 1}, generator, place);
  return at::remainder(pixel + flip * (size - 1 - 2 * pixel) + shift, size);
}

}  // namespace

FieldSet simulate_fields(const std::vector<GrayScottRegime>& regimes, std::int64_t per_class,
                         const GrayScottOptions& options, at::Device device,
                         const std::function<void(std::int64_t)>& before_class) {
  std::vector<at::Tensor> fields;
  for (std::size_t r = 0; r < regimes.size(); ++r) {
    if (before_class) {
      before_class(static_cast<std::int64_t>(r));
    }
    fields.push_back(simulate_gray_scott(regimes[r], per_class, options, device));
  }
  const auto place = at::TensorOptions(at::kLong).device(device);
  const at::Tensor labels =
      at::arange(static_cast<std::int64_t>(regimes.size()), place).repeat_interleave(per_class);
  return {at::cat(fields, 0), labels};
}

std::vector<ChannelScale> measure_scales(const FieldSet& set) {
  const char* const names[] = {"u", "v"};
  std::vector<ChannelScale> scales;
  for (std::int64_t c = 0; c < set.fields.size(1); ++c) {
    const at::Tensor channel = set.fields.select(1, c).to(at::kDouble);
    scales.push_back(
        {names[c], rounded(channel.mean().item<double>()), rounded(channel.std().item<double>())});
    if (!(scales.back().scale > 0)) {
      throw std::runtime_error("training data: channel " + scales.back().name +
                               " is uniform, nothing can be learnt");
    }
  }
  return scales;
}

at::Tensor to_model_units(const at::Tensor& fields, const std::vector<ChannelScale>& scales) {
  return (fields - per_channel(scales, &ChannelScale::mean, fields)) /
         per_channel(scales, &ChannelScale::scale, fields);
}

at::Tensor to_physical_units(const at::Tensor& fields, const std::vector<ChannelScale>& scales) {
  return fields * per_channel(scales, &ChannelScale::scale, fields) +
         per_channel(scales, &ChannelScale::mean, fields);
}

FieldBatch draw_batch(const FieldSet& set, std::int64_t count, at::Generator& generator) {
  const at::TensorOptions place = set.labels.options();
  const std::int64_t size = set.size();
  const at::Tensor chosen = at::randint(set.count(), {count}, generator, place);
  const at::Tensor rows = moved_axis(count, size, generator, place);
  const at::Tensor columns = moved_axis(count, size, generator, place);
  const at::Tensor transposed = at::randint(2, {count, 1, 1}, generator, place).to(at::kBool);
  const at::Tensor pixel = rows.unsqueeze(2) * size + columns.unsqueeze(1);
  const at::Tensor source = at::where(transposed, pixel.transpose(1, 2), pixel);
  const at::Tensor fields = set.fields.index_select(0, chosen);
  const at::Tensor moved =
      fields.flatten(2).gather(2, source.flatten(1).unsqueeze(1).expand({-1, fields.size(1), -1}));
  return {moved.reshape(fields.sizes()), set.labels.index_select(0, chosen)};
}

at::Tensor drop_labels(const at::Tensor& labels, double share, std::int64_t null_label,
                       at::Generator& generator) {
  const at::Tensor dropped = at::rand(labels.sizes(), generator, labels.options().dtype(at::kFloat)) < share;
  return labels.masked_fill(dropped, null_label);
}

at::Generator seeded_generator(at::Device device, std::uint64_t seed) {
  if (device.is_cpu()) {
    return cpu_generator(seed);
  }
  (void)at::empty({1}, device);  // starts the device's part of libtorch, where its generators are made
  at::Generator generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(seed);
  return generator;
}

}  // namespace dit::gray_scott
