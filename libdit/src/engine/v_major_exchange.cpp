#include "engine/v_major_exchange.hpp"

#include <algorithm>

namespace dit {
namespace {

constexpr AttentionTensor kTensors[] = {AttentionTensor::query, AttentionTensor::key, AttentionTensor::value};

std::span<const float> floats_of(const at::Tensor& scores, std::int64_t begin, std::int64_t count) {
  return {scores.data_ptr<float>() + begin, static_cast<std::size_t>(count)};
}

RowFlags flags_of(const std::vector<std::uint32_t>& active, std::int64_t rows) {
  RowFlags flags(static_cast<std::size_t>(rows), 0);
  for (const std::uint32_t row : active) {
    flags[row] = 1;
  }
  return flags;
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
    : layout_(layout),
      context_(context),
      boundary_(shape.boundary),
      mask_layout_id_(context.take_layout_ids(1)),
      groups_(static_cast<std::size_t>(shape.groups)) {
  for (int unit = 0; unit < shape.units; ++unit) {
    units_.push_back(make_unit(shape));
  }
}

std::int64_t VMajorExchange::rows_of(int rank) const {
  return layout_.shape().batch * layout_.sequence_rows(rank);
}

VMajorExchange::Unit VMajorExchange::make_unit(const Shape& shape) const {
  Unit unit;
  const AttentionShape& attention = layout_.shape();
  const std::int64_t elements = attention.kv_heads * attention.head_dim;
  for (int layer = 0; layer < shape.layers; ++layer) {
    unit.layers.push_back(
        {at::zeros({rows_of(context_.rank()), elements}, shape.dtype),
         std::vector<RowAges>(static_cast<std::size_t>(attention.batch), RowAges(layout_.tokens()))});
  }
  unit.own_mask.resize(row_mask_bytes(rows_of(context_.rank())));
  std::size_t offset = 0;
  for (int peer = 0; peer < layout_.ranks(); ++peer) {
    const std::size_t bytes = row_mask_bytes(rows_of(peer));
    unit.send_blocks.push_back({0, unit.own_mask.size()});
    unit.recv_blocks.push_back({offset, bytes});
    offset += bytes;
  }
  unit.masks.resize(offset);
  for (const AttentionTensor tensor : kTensors) {
    for (int group = 0; group < shape.groups; ++group) {
      unit.selections.emplace_back(layout_, tensor, context_.rank(), group, shape.groups,
                                   c10::elementSize(shape.dtype));
    }
  }
  return unit;
}

void VMajorExchange::sent_in_full(int unit, int layer, const at::Tensor& value, int step) {
  Layer& cached = units_[static_cast<std::size_t>(unit)].layers[static_cast<std::size_t>(layer)];
  cached.reference.copy_(value.reshape(cached.reference.sizes()));
  for (RowAges& ages : cached.ages) {
    ages.brought_all(step);
  }
}

void VMajorExchange::choose(int unit, int layer, const at::Tensor& value, double ratio) {
  Unit& state = units_[static_cast<std::size_t>(unit)];
  const at::Tensor& reference = state.layers[static_cast<std::size_t>(layer)].reference;
  const at::Tensor rows = value.reshape(reference.sizes());
  const at::Tensor scores = (rows.to(at::kFloat) - reference.to(at::kFloat)).abs().sum(1).contiguous();
  const std::int64_t tokens = layout_.sequence_rows(context_.rank());
  std::vector<std::uint32_t> active;
  for (std::int64_t sample = 0; sample < layout_.shape().batch; ++sample) {
    for (const std::uint32_t row : choose_active_rows(floats_of(scores, sample * tokens, tokens), ratio)) {
      active.push_back(static_cast<std::uint32_t>(sample * tokens) + row);
    }
  }
  state.own_mask = rows_to_mask(active, reference.size(0));
  // The reference keeps what a row was when it was last sent: small drifts add up until they are noticed.
  const at::Tensor index = at::empty({static_cast<std::int64_t>(active.size())}, at::kLong);
  std::copy(active.begin(), active.end(), index.data_ptr<std::int64_t>());
  reference.index_copy_(0, index, rows.index_select(0, index));
}

ExchangeRequest VMajorExchange::start_mask(int unit, bool blocking, const char* label) {
  Unit& state = units_[static_cast<std::size_t>(unit)];
  dit_exchange_call call{};
  call.send = state.own_mask.data();
  call.recv = state.masks.data();
  call.send_blocks = state.send_blocks.data();
  call.recv_blocks = state.recv_blocks.data();
  call.memory_kind = DIT_MEMORY_HOST;
  call.flags = blocking ? DIT_EXCHANGE_BLOCKING : 0U;
  call.label = label;
  call.layout_id = mask_layout_id_;
  return context_.start(call);
}

void VMajorExchange::mask_arrived(int unit, int layer, int step) {
  Unit& state = units_[static_cast<std::size_t>(unit)];
  std::vector<RowFlags> active;
  for (int peer = 0; peer < layout_.ranks(); ++peer) {
    const dit_block& block = state.recv_blocks[static_cast<std::size_t>(peer)];
    const std::vector<std::uint32_t> rows =
        mask_to_rows(std::span(state.masks).subspan(block.offset, block.bytes), rows_of(peer));
    active_rows_ += rows.size();
    seen_rows_ += static_cast<std::uint64_t>(rows_of(peer));
    active.push_back(flags_of(rows, rows_of(peer)));
  }
  for (RowSelection& selection : state.selections) {
    selection.select(active, boundary_);
  }
  note_ages(state.layers[static_cast<std::size_t>(layer)], active, step);
}

void VMajorExchange::note_ages(Layer& layer, const std::vector<RowFlags>& active, int step) const {
  for (int peer = 0; peer < layout_.ranks(); ++peer) {
    const bool selected = peer != context_.rank() && context_.level_of(peer) >= boundary_;
    const Range tokens = layout_.image_tokens(peer);
    for (std::size_t sample = 0; sample < layer.ages.size(); ++sample) {
      std::vector<std::uint32_t> brought;
      for (std::int64_t token = 0; token < tokens.size(); ++token) {
        const auto row = static_cast<std::int64_t>(sample) * tokens.size() + token;
        if (!selected || active[static_cast<std::size_t>(peer)][static_cast<std::size_t>(row)] != 0) {
          brought.push_back(static_cast<std::uint32_t>(tokens.begin + token));
        }
      }
      layer.ages[sample].brought(brought, step);
    }
  }
}

const dit_row_selection* VMajorExchange::selection(int unit, AttentionTensor tensor, int group) const {
  const auto index = static_cast<std::size_t>(tensor) * groups_ + static_cast<std::size_t>(group);
  return units_[static_cast<std::size_t>(unit)].selections[index].get();
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
