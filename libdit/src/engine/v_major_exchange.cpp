#include "engine/v_major_exchange.hpp"

#include <algorithm>

#include "engine/bytes.hpp"

namespace dit {
namespace {

constexpr AttentionTensor kTensors[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value};

std::span<const float> floats_of(const at::Tensor& scores, std::int64_t begin, std::int64_t count) {
  return {scores.data_ptr<float>() + begin, static_cast<std::size_t>(count)};
}

}  // namespace

int boundary_level(const VMajorPolicy& policy, const ExchangeContext& whole, const ExchangeContext& context) {
  const int wanted = policy.boundary.empty() ? whole.slow_level() : whole.level_named(policy.boundary);
  const std::vector<std::string> names = context.levels();
  for (std::size_t level = 0; level < names.size(); ++level) {
    if (whole.level_named(names[level]) >= wanted) {
      return static_cast<int>(level);
    }
  }
  return static_cast<int>(names.size());
}

VMajorExchange::VMajorExchange(const UlyssesLayout& layout, ExchangeContext& context, const Shape& shape)
    : layout_(layout), context_(context), groups_(static_cast<std::size_t>(shape.groups)) {
  std::vector<bool> selected;
  for (int peer = 0; peer < layout.ranks(); ++peer) {
    selected.push_back(peer != context.rank() && context.level_of(peer) >= shape.boundary);
  }
  while (aged_group_ + 1 < shape.groups &&
         layout.kv_heads(context.rank(), aged_group_, shape.groups).size() == 0) {
    ++aged_group_;
  }
  for (int unit = 0; unit < shape.units; ++unit) {
    units_.push_back(make_unit(shape, selected));
  }
}

std::int64_t VMajorExchange::rows_of(int rank) const {
  return layout_.shape().batch * layout_.sequence_rows(rank);
}

VMajorExchange::Unit VMajorExchange::make_unit(const Shape& shape, const std::vector<bool>& selected) const {
  Unit unit;
  const AttentionShape& attention = layout_.shape();
  const std::int64_t elements = attention.kv_heads * attention.head_dim;
  for (int layer = 0; layer < shape.layers; ++layer) {
    unit.layers.push_back(
        {at::zeros({rows_of(context_.rank()), elements}, shape.dtype),
         std::vector<RowAges>(static_cast<std::size_t>(attention.batch), RowAges(layout_.tokens()))});
  }
  for (const AttentionTensor tensor : kTensors) {
    for (int group = 0; group < shape.groups; ++group) {
      const ActiveBlocks blocks(layout_, tensor, context_.rank(), group, shape.groups,
                                c10::elementSize(shape.dtype), selected, shape.narrow);
      unit.wires.push_back({blocks, std::vector<std::byte>(blocks.most_send_bytes()),
                            std::vector<std::byte>(blocks.most_recv_bytes())});
    }
  }
  return unit;
}

VMajorExchange::Wire& VMajorExchange::wire(int unit, AttentionTensor tensor, int group) {
  const auto index = static_cast<std::size_t>(tensor) * groups_ + static_cast<std::size_t>(group);
  return units_[static_cast<std::size_t>(unit)].wires[index];
}

void VMajorExchange::sent_in_full(int unit, int layer, const at::Tensor& value, int step) {
  Layer& cached = units_[static_cast<std::size_t>(unit)].layers[static_cast<std::size_t>(layer)];
  cached.reference.copy_(value.reshape(cached.reference.sizes()));
  for (RowAges& ages : cached.ages) {
    ages.brought_all(step);
  }
}

void VMajorExchange::begin(double ratio) {
  ratio_ = ratio;
  if (layout_ids_.count(ratio) == 0) {
    layout_ids_[ratio] = context_.take_layout_ids(std::size(kTensors) * groups_);
  }
  for (Unit& unit : units_) {
    for (Wire& wire : unit.wires) {
      wire.blocks.set_ratio(ratio);
    }
  }
}

void VMajorExchange::choose(int unit, int layer, const at::Tensor& value) {
  Unit& state = units_[static_cast<std::size_t>(unit)];
  const at::Tensor& reference = state.layers[static_cast<std::size_t>(layer)].reference;
  const at::Tensor rows = value.reshape(reference.sizes());
  const at::Tensor scores = (rows.to(at::kFloat) - reference.to(at::kFloat)).abs().sum(1).contiguous();
  const std::int64_t tokens = layout_.sequence_rows(context_.rank());
  std::vector<std::uint32_t>& active = state.active;
  active.clear();
  for (std::int64_t sample = 0; sample < layout_.shape().batch; ++sample) {
    for (const std::uint32_t row : choose_active_rows(floats_of(scores, sample * tokens, tokens), ratio_)) {
      active.push_back(static_cast<std::uint32_t>(sample * tokens) + row);
    }
  }
  // The reference keeps what a row was when it was last sent: small drifts add up until they are noticed.
  const at::Tensor index = at::empty({static_cast<std::int64_t>(active.size())}, at::kLong);
  std::copy(active.begin(), active.end(), index.data_ptr<std::int64_t>());
  reference.index_copy_(0, index, rows.index_select(0, index));
  count_active();
}

void VMajorExchange::count_active() {
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    const std::int64_t rows = layout_.sequence_rows(rank);
    active_rows_ += static_cast<std::uint64_t>(layout_.shape().batch * active_row_count(rows, ratio_));
    seen_rows_ += static_cast<std::uint64_t>(rows_of(rank));
  }
}

void VMajorExchange::pack(int unit, AttentionTensor tensor, int group, const at::Tensor& source) {
  Wire& to = wire(unit, tensor, group);
  to.blocks.pack(bytes_of(source.contiguous()), units_[static_cast<std::size_t>(unit)].active, to.send);
}

/// Where no head is shared, queries travel as keys and values do: one layout for all three.
std::uint64_t VMajorExchange::layout_id(AttentionTensor tensor, int group) const {
  const bool alone = tensor == AttentionTensor::query && !layout_.queries_go_like_keys();
  return layout_ids_.at(ratio_) + (alone ? groups_ : 0) + static_cast<std::uint64_t>(group);
}

ExchangeRequest VMajorExchange::start(int unit, AttentionTensor tensor, int group, bool blocking,
                                      const char* label) {
  Wire& of_tensor = wire(unit, tensor, group);
  dit_exchange_call call{};
  call.send = of_tensor.send.data();
  call.recv = of_tensor.recv.data();
  call.send_blocks = of_tensor.blocks.send_blocks().data();
  call.recv_blocks = of_tensor.blocks.recv_blocks().data();
  call.memory_kind = DIT_MEMORY_HOST;
  call.flags = blocking ? DIT_EXCHANGE_BLOCKING : 0U;
  call.label = label;
  call.layout_id = layout_id(tensor, group);
  return context_.start(call);
}

void VMajorExchange::arrived(int unit, int layer, AttentionTensor tensor, int group,
                             const TensorExchange& full, const Received& cached, int step) {
  const Wire& from = wire(unit, tensor, group);
  from.blocks.unpack(from.recv, full.recv_blocks(), writable_bytes_of(cached.buffer));
  if (tensor == AttentionTensor::value && group == aged_group_) {
    note_ages(units_[static_cast<std::size_t>(unit)].layers[static_cast<std::size_t>(layer)], from, step);
  }
}

void VMajorExchange::note_ages(Layer& layer, const Wire& value, int step) const {
  for (int peer = 0; peer < layout_.ranks(); ++peer) {
    const Range tokens = layout_.image_tokens(peer);
    std::vector<std::vector<std::uint32_t>> brought(layer.ages.size());
    for (const std::uint32_t row : value.blocks.active_rows_of(peer, value.recv)) {
      const std::int64_t sample = row / tokens.size();
      brought[static_cast<std::size_t>(sample)].push_back(
          static_cast<std::uint32_t>(tokens.begin + row % tokens.size()));
    }
    for (std::size_t sample = 0; sample < brought.size(); ++sample) {
      layer.ages[sample].brought(brought[sample], step);
    }
  }
}

int VMajorExchange::oldest(int step) const {
  int oldest = 0;
  for (const Unit& unit : units_) {
    for (const Layer& layer : unit.layers) {
      for (const RowAges& ages : layer.ages) {
        oldest = std::max(oldest, ages.oldest(step));
      }
    }
  }
  return oldest;
}

double VMajorExchange::take_active_fraction() {
  const double fraction =
      seen_rows_ == 0 ? 1.0 : static_cast<double>(active_rows_) / static_cast<double>(seen_rows_);
  active_rows_ = 0;
  seen_rows_ = 0;
  return fraction;
}

}  // namespace dit
