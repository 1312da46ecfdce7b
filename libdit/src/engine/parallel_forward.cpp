#include "engine/parallel_forward.hpp"

#include <stdexcept>
#include <utility>

#include "models/attention.hpp"

namespace dit {
namespace {

constexpr std::array<AttentionTensor, 3> kAttentionTensors = {AttentionTensor::query, AttentionTensor::key,
                                                              AttentionTensor::value};

std::size_t index_of(AttentionTensor tensor) {
  return static_cast<std::size_t>(tensor);
}

/// Samples side by side; one sample needs no copy.
at::Tensor joined(const std::vector<at::Tensor>& samples) {
  return samples.size() == 1 ? samples[0] : at::cat(samples, 0);
}

AttentionTensor tensor_of(StepRole role) {
  switch (role) {
    case StepRole::value:
    case StepRole::scatter_value:
      return AttentionTensor::value;
    case StepRole::query:
    case StepRole::scatter_query:
      return AttentionTensor::query;
    case StepRole::key:
    case StepRole::scatter_key:
      return AttentionTensor::key;
    default:
      throw std::logic_error(std::string("step ") + to_string(role) + " is of no tensor");
  }
}

}  // namespace

at::Tensor ParallelForward::Group::attended() {
  const at::Tensor all = attended_parts.size() == 1 ? attended_parts[0] : at::cat(attended_parts, 1);
  attended_parts.clear();
  return all;
}

ParallelForward::ParallelForward(ForwardSetup setup, const UlyssesLayout& layout)
    : setup_(std::move(setup)),
      layout_(layout),
      rank_(setup_.context != nullptr ? setup_.context->rank() : 0),
      first_layout_id_(
          setup_.context != nullptr
              ? setup_.context->take_layout_ids((kTensors + 1) * static_cast<std::uint64_t>(setup_.groups))
              : 0) {
  rope_ = setup_.model->rope(layout_.image_tokens(rank_), setup_.columns);
  for (const auto& labels : setup_.unit_labels) {
    units_.push_back(make_unit(labels));
  }
}

ParallelForward::Unit ParallelForward::make_unit(const std::vector<std::int64_t>& labels) const {
  const AttentionShape& shape = layout_.shape();
  Unit unit;
  unit.labels = labels;
  unit.output =
      at::zeros({shape.batch, layout_.sequence_rows(rank_), shape.heads, shape.head_dim}, setup_.options);
  for (int group = 0; group < setup_.groups; ++group) {
    unit.groups.push_back(make_group(group, unit.output));
  }
  return unit;
}

ParallelForward::Group ParallelForward::make_group(int group, const at::Tensor& output) const {
  const AttentionShape& shape = layout_.shape();
  const Range kv_heads = layout_.kv_heads(rank_, group, setup_.groups);
  Group result;
  result.heads = layout_.heads(rank_, group, setup_.groups);
  for (std::int64_t head = result.heads.begin; head < result.heads.end; ++head) {
    result.kv_of_head.push_back(head * shape.kv_heads / shape.heads - kv_heads.begin);
  }
  if (setup_.context == nullptr) {
    return result;
  }
  const at::ScalarType dtype = c10::typeMetaToScalarType(setup_.options.dtype());
  const std::uint64_t layout_id = first_layout_id_ + (kTensors + 1) * static_cast<std::uint64_t>(group);
  for (const AttentionTensor tensor : kAttentionTensors) {
    const bool query = tensor == AttentionTensor::query;
    result.scatter.emplace_back(
        layout_.scatter_heads(tensor, rank_, group, setup_.groups),
        std::vector<std::int64_t>{shape.batch, query ? layout_.query_tokens(rank_).size() : layout_.tokens(),
                                  query ? result.heads.size() : kv_heads.size(), shape.head_dim},
        dtype, layout_id + index_of(tensor));
  }
  const std::int64_t copies = setup_.v_major != nullptr ? setup_.model->config().layers : 1;
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    auto& received = result.received.emplace_back();
    for (const AttentionTensor tensor : kAttentionTensors) {
      const std::size_t i = index_of(tensor);
      received[i] =
          copy == 0 ? result.scatter[i].make_received() : result.scatter[i].make_cache(result.received[0][i]);
    }
  }
  result.gather.emplace_back(layout_.gather_heads(rank_, group, setup_.groups), output.sizes().vec(), dtype,
                             layout_id + kTensors);
  result.output = result.gather[0].make_received(output);
  return result;
}

const std::array<Received, ParallelForward::kTensors>& ParallelForward::received(const Group& group,
                                                                                 int layer) const {
  return group.received[group.received.size() == 1 ? 0 : static_cast<std::size_t>(layer)];
}

void ParallelForward::begin(const StepGraph& graph, Pass pass) {
  graph_ = &graph;
  pass_ = std::move(pass);
  labels_.clear();
  for (const Step& step : graph.steps) {
    labels_.push_back(is_exchange(step.role) ? step_name(step) : std::string());
  }
  kept_layers_.assign(pass_.keep_layers ? static_cast<std::size_t>(graph.layers) : 0, at::Tensor());
}

void ParallelForward::compute(StepId id) {
  const Step& step = step_of(id);
  Unit& unit = unit_of(step);
  switch (step.role) {
    case StepRole::prepare:
      return prepare(unit);
    case StepRole::value:
      project(unit, step.layer, AttentionTensor::value);
      return value_computed(step);
    case StepRole::query:
    case StepRole::key:
      return project(unit, step.layer, tensor_of(step.role));
    case StepRole::score:
      return setup_.v_major->choose(step.unit, step.layer, unit.projected[index_of(AttentionTensor::value)],
                                    pass_.decision.ratio);
    case StepRole::attention:
      return attend(unit, step);
    case StepRole::finish:
      return finish(unit, step.layer);
    case StepRole::mlp:
      return feed_forward(unit, step.layer);
    case StepRole::last:
      return end(unit);
    default:
      throw std::logic_error("step " + step_name(step) + " is no computation");
  }
}

void ParallelForward::prepare(Unit& unit) const {
  unit.conditioning.clear();
  unit.x.clear();
  unit.normed.clear();
  const at::Tensor patches = pass_.patches.to(setup_.options);
  const at::Tensor time = at::full({1}, pass_.time, setup_.options.dtype(at::kFloat));
  for (const std::int64_t label : unit.labels) {
    unit.conditioning.push_back(
        setup_.model->condition(time, at::full({1}, label, setup_.options.dtype(at::kLong))));
    unit.x.push_back(setup_.model->embed(patches));
  }
}

/// Sample by sample, so that a product has the same shape, and so the same bits, whatever the units are.
void ParallelForward::project(Unit& unit, int layer, AttentionTensor tensor) const {
  const PixelDit& model = *setup_.model;
  std::vector<at::Tensor> samples;
  for (std::size_t i = 0; i < unit.x.size(); ++i) {
    if (unit.normed.size() <= i) {  // Q, K and V come in the order of the schedule: the first one norms
      unit.normed.push_back(model.attention_input(layer, unit.x[i], unit.conditioning[i]));
    }
    const at::Tensor& h = unit.normed[i];
    samples.push_back(tensor == AttentionTensor::value   ? model.value(layer, h)
                      : tensor == AttentionTensor::query ? model.query(layer, h, rope_)
                                                         : model.key(layer, h, rope_));
  }
  unit.projected[index_of(tensor)] = joined(samples);
}

void ParallelForward::value_computed(const Step& step) {
  if (setup_.v_major != nullptr && pass_.decision.full) {
    setup_.v_major->sent_in_full(step.unit, step.layer,
                                 unit_of(step).projected[index_of(AttentionTensor::value)], pass_.step);
  }
}

void ParallelForward::attend(Unit& unit, const Step& step) const {
  Group& group = unit.groups[static_cast<std::size_t>(step.group)];
  std::array<at::Tensor, kTensors> parts;
  for (std::size_t i = 0; i < kTensors; ++i) {
    parts[i] = setup_.context != nullptr ? received(group, step.layer)[i].tensor
                                         : unit.projected[i].narrow(2, group.heads.begin, group.heads.size());
  }
  const at::Tensor& query = parts[index_of(AttentionTensor::query)];
  const at::Tensor& key = parts[index_of(AttentionTensor::key)];
  const Range rows = attention_part(query.size(1), key.size(1), step.part, graph_->parts);
  group.attended_parts.resize(static_cast<std::size_t>(graph_->parts));
  group.attended_parts[static_cast<std::size_t>(step.part)] =
      attention(query.narrow(1, rows.begin, rows.size()), key, parts[index_of(AttentionTensor::value)],
                group.kv_of_head);
}

void ParallelForward::finish(Unit& unit, int layer) const {
  for (std::size_t i = 0; i < unit.x.size(); ++i) {
    unit.x[i] = setup_.model->after_attention(
        layer, unit.x[i], unit.output.narrow(0, static_cast<std::int64_t>(i), 1), unit.conditioning[i]);
  }
}

void ParallelForward::feed_forward(Unit& unit, int layer) {
  for (std::size_t i = 0; i < unit.x.size(); ++i) {
    unit.x[i] = setup_.model->feed_forward(layer, unit.x[i], unit.conditioning[i]);
  }
  unit.normed.clear();
  if (pass_.keep_layers && &unit == units_.data()) {
    kept_layers_[static_cast<std::size_t>(layer)] = unit.x[0][0];
  }
}

void ParallelForward::end(Unit& unit) const {
  unit.velocity.clear();
  for (std::size_t i = 0; i < unit.x.size(); ++i) {
    unit.velocity.push_back(setup_.model->output(unit.x[i], unit.conditioning[i]));
  }
}

void ParallelForward::pack(StepId id) {
  const Step& step = step_of(id);
  if (setup_.context == nullptr || step.role == StepRole::mask) {
    return;
  }
  Group& group = group_of(step);
  if (step.role == StepRole::gather_output) {
    return group.gather[0].pack(group.attended());
  }
  const std::size_t tensor = index_of(tensor_of(step.role));
  group.scatter[tensor].pack(unit_of(step).projected[tensor]);
}

ExchangeRequest ParallelForward::start(StepId id, bool blocking) {
  const Step& step = step_of(id);
  if (setup_.context == nullptr) {
    return {};
  }
  TensorExchange::How how{blocking, nullptr, labels_[static_cast<std::size_t>(id)].c_str()};
  const Group& group = group_of(step);
  if (step.role == StepRole::mask) {
    return setup_.v_major->start_mask(step.unit, blocking, how.label);
  }
  if (step.role == StepRole::gather_output) {
    return group.gather[0].start(*setup_.context, group.output, how);
  }
  const AttentionTensor tensor = tensor_of(step.role);
  if (!pass_.decision.full) {
    how.selection = setup_.v_major->selection(step.unit, tensor, step.group);
  }
  return group.scatter[index_of(tensor)].start(*setup_.context, received(group, step.layer)[index_of(tensor)],
                                               how);
}

void ParallelForward::arrived(StepId id) {
  const Step& step = step_of(id);
  Group& group = group_of(step);
  if (setup_.context == nullptr) {
    if (step.role == StepRole::gather_output) {
      unit_of(step).output.narrow(2, group.heads.begin, group.heads.size()).copy_(group.attended());
    }
    return;
  }
  if (step.role == StepRole::mask) {
    return setup_.v_major->mask_arrived(step.unit, step.layer, pass_.step);
  }
  if (step.role == StepRole::gather_output) {
    return group.gather[0].finish(group.output);
  }
  const std::size_t tensor = index_of(tensor_of(step.role));
  group.scatter[tensor].finish(received(group, step.layer)[tensor]);
}

std::vector<at::Tensor> ParallelForward::velocities() const {
  std::vector<at::Tensor> branches;
  for (const Unit& unit : units_) {
    branches.insert(branches.end(), unit.velocity.begin(), unit.velocity.end());
  }
  return branches;
}

void ParallelForward::note_bytes(StepGraph& graph) const {
  if (setup_.context == nullptr) {
    return;
  }
  for (Step& step : graph.steps) {
    if (!is_exchange(step.role) || step.role == StepRole::mask) {
      continue;
    }
    const Group& group =
        units_[static_cast<std::size_t>(step.unit)].groups[static_cast<std::size_t>(step.group)];
    step.slow_bytes = (step.role == StepRole::gather_output ? group.gather[0]
                                                            : group.scatter[index_of(tensor_of(step.role))])
                          .slow_bytes(*setup_.context);
  }
}

}  // namespace dit
