#include "engine/parallel_forward.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "engine/tensor_views.hpp"
#include "models/attention.hpp"
#include "transfer/coded_transfer.hpp"
#include "transfer/plain_transfer.hpp"

namespace dit {
namespace {

constexpr std::array<AttentionTensor, kAttentionTensors> kTensors = {
    AttentionTensor::query, AttentionTensor::key, AttentionTensor::value, AttentionTensor::output};

std::size_t index_of(AttentionTensor tensor) {
  return static_cast<std::size_t>(tensor);
}

/// Samples side by side; one sample needs no copy.
at::Tensor joined(const std::vector<at::Tensor>& samples) {
  return samples.size() == 1 ? samples[0] : at::cat(samples, 0);
}

at::Tensor sum_of(const std::vector<std::unique_ptr<SampleForward>>& samples) {
  at::Tensor sum = samples[0]->image_stream().sum();
  for (std::size_t i = 1; i < samples.size(); ++i) {
    sum = sum + samples[i]->image_stream().sum();
  }
  return sum;
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
    case StepRole::gather_output:
      return AttentionTensor::output;
    default:
      throw std::logic_error(std::string("step ") + to_string(role) + " is of no tensor");
  }
}

}  // namespace

ParallelForward::ParallelForward(ForwardSetup setup, const UlyssesLayout& layout)
    : setup_(std::move(setup)),
      layout_(layout),
      rank_(setup_.context != nullptr ? setup_.context->rank() : 0),
      first_layout_id_(
          setup_.context != nullptr
              ? setup_.context->take_layout_ids(kAttentionTensors * static_cast<std::uint64_t>(setup_.groups))
              : 0) {
  for (int layer = 0; layer < setup_.model->shape().layers(); ++layer) {
    most_scores_.push_back(setup_.model->most_score(layer));
  }
  for (const auto& labels : setup_.unit_labels) {
    units_.push_back(make_unit(labels));
  }
}

ParallelForward::Unit ParallelForward::make_unit(const std::vector<std::int64_t>& labels) const {
  const AttentionShape& shape = layout_.shape();
  Unit unit;
  unit.labels = labels;
  const OwnTokens own = own_tokens(layout_, rank_, setup_.columns);
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    unit.samples.push_back(setup_.model->forward_on(own));
  }
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
  result.kv_heads = kv_heads;
  for (std::int64_t head = result.heads.begin; head < result.heads.end; ++head) {
    result.kv_of_head.push_back(head * shape.kv_heads / shape.heads - kv_heads.begin);
  }
  if (setup_.context == nullptr) {
    return result;
  }
  for (const AttentionTensor tensor : kTensors) {
    std::unique_ptr<TensorTransfer> transfer = make_transfer({tensor, group, setup_.groups});
    const TensorShape& to = transfer->target_shape();
    result.received[index_of(tensor)] =
        tensor == AttentionTensor::output
            ? output
            : at::zeros({to.batch, to.rows, to.heads, to.head_dim}, setup_.options);
    result.transfers[index_of(tensor)] = std::move(transfer);
  }
  return result;
}

std::unique_ptr<TensorTransfer> ParallelForward::make_transfer(const TransferPart& part) const {
  if (setup_.wire != nullptr) {
    return std::make_unique<CodedTransfer>(*setup_.context, *setup_.wire, part);
  }
  const std::uint64_t id = first_layout_id_ + kAttentionTensors * static_cast<std::uint64_t>(part.group) +
                           static_cast<std::uint64_t>(part.tensor);
  return std::make_unique<PlainTransfer>(*setup_.context, layout_, part,
                                         c10::elementSize(c10::typeMetaToScalarType(setup_.options.dtype())),
                                         id);
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
    case StepRole::query:
    case StepRole::key:
      return project(unit, step.layer, tensor_of(step.role));
    case StepRole::score:
      return setup_.active_rows->choose(step.unit, place_of(step),
                                        source_view(unit.projected[index_of(AttentionTensor::value)]));
    case StepRole::attention:
      return attend(unit, step);
    case StepRole::finish:
      return finish(unit, step.layer);
    case StepRole::mlp:
    case StepRole::mlp_in:
    case StepRole::mlp_out:
      return feed_forward(unit, step);
    case StepRole::last:
      return end(unit);
    default:
      throw std::logic_error("step " + step_name(step) + " is no computation");
  }
}

void ParallelForward::prepare(Unit& unit) const {
  unit.sums.clear();
  const at::Tensor patches = pass_.patches.to(setup_.options);
  for (std::size_t i = 0; i < unit.samples.size(); ++i) {
    unit.samples[i]->prepare(patches, pass_.time, unit.labels[i]);
  }
}

/// Sample by sample, so that a product has the same shape, and so the same bits, whatever the units are.
void ParallelForward::project(Unit& unit, int layer, AttentionTensor tensor) const {
  std::vector<at::Tensor> samples;
  for (const auto& sample : unit.samples) {
    samples.push_back(tensor == AttentionTensor::value   ? sample->value(layer)
                      : tensor == AttentionTensor::query ? sample->query(layer)
                                                         : sample->key(layer));
  }
  unit.projected[index_of(tensor)] = joined(samples);
}

void ParallelForward::attend(Unit& unit, const Step& step) const {
  Group& group = unit.groups[static_cast<std::size_t>(step.group)];
  const auto input = [&](AttentionTensor tensor) {
    const std::size_t i = index_of(tensor);
    const Range heads = has_query_heads(tensor) ? group.heads : group.kv_heads;
    return setup_.context != nullptr ? group.received[i]
                                     : unit.projected[i].narrow(2, heads.begin, heads.size());
  };
  group.attended =
      attention(input(AttentionTensor::query), input(AttentionTensor::key), input(AttentionTensor::value),
                group.kv_of_head, most_scores_[static_cast<std::size_t>(step.layer)], setup_.wire != nullptr);
}

void ParallelForward::finish(Unit& unit, int layer) {
  for (std::size_t i = 0; i < unit.samples.size(); ++i) {
    unit.samples[i]->finish(layer, unit.output.narrow(0, static_cast<std::int64_t>(i), 1));
  }
  if (graph_->block_of(layer).mlp == MlpPlace::beside) {
    end_block(unit, layer);
  }
}

void ParallelForward::feed_forward(Unit& unit, const Step& step) {
  for (const auto& sample : unit.samples) {
    if (step.role == StepRole::mlp_in) {
      sample->mlp_in(step.layer);
    } else if (step.role == StepRole::mlp_out) {
      sample->mlp_out(step.layer);
    } else {
      sample->mlp(step.layer);
    }
  }
  if (step.role == StepRole::mlp) {
    end_block(unit, step.layer);
  }
}

void ParallelForward::end_block(Unit& unit, int layer) {
  unit.sums.push_back(sum_of(unit.samples));
  if (pass_.keep_layers && &unit == units_.data()) {
    kept_layers_[static_cast<std::size_t>(layer)] = unit.samples[0]->image_stream()[0];
  }
}

void ParallelForward::end(Unit& unit) const {
  unit.velocity.clear();
  for (const auto& sample : unit.samples) {
    unit.velocity.push_back(sample->last());
  }
}

/// What an exchange sends. Takes what was attended.
at::Tensor ParallelForward::source_of(const Step& step) {
  return step.role == StepRole::gather_output ? std::exchange(group_of(step).attended, {})
                                              : unit_of(step).projected[index_of(tensor_of(step.role))];
}

TransferPlace ParallelForward::place_of(const Step& step) const {
  return {step.layer, pass_.step, setup_.first_branch + step.unit};
}

void ParallelForward::pack(StepId id) {
  const Step& step = step_of(id);
  if (setup_.context == nullptr) {
    return;
  }
  Group& group = group_of(step);
  const std::size_t tensor = index_of(tensor_of(step.role));
  const auto active = setup_.active_rows != nullptr ? setup_.active_rows->active(step.unit)
                                                    : std::span<const std::uint32_t>();
  group.sent[tensor] = source_of(step);
  group.transfers[tensor]->pack(source_view(group.sent[tensor]), place_of(step), active, nullptr);
}

ExchangeRequest ParallelForward::start(StepId id, bool blocking) {
  const Step& step = step_of(id);
  if (setup_.context == nullptr) {
    return {};
  }
  Group& group = group_of(step);
  const std::size_t tensor = index_of(tensor_of(step.role));
  TransferStart how;
  how.blocking = blocking;
  how.label = labels_[static_cast<std::size_t>(id)].c_str();
  how.owner =
      std::make_shared<std::array<at::Tensor, 2>>(std::array{group.sent[tensor], group.received[tensor]});
  return group.transfers[tensor]->start(target_view(group.received[tensor]), how);
}

/// On one rank: nothing came from others.
void ParallelForward::arrived_alone(const Step& step) {
  Unit& unit = unit_of(step);
  Group& group = group_of(step);
  if (step.role == StepRole::gather_output) {
    unit.output.narrow(2, group.heads.begin, group.heads.size()).copy_(std::exchange(group.attended, {}));
  }
  if (setup_.observe && step.group == setup_.groups - 1) {
    const bool output = step.role == StepRole::gather_output;
    setup_.observe({tensor_of(step.role), step.layer, pass_.step, step.unit,
                    output ? unit.output : unit.projected[index_of(tensor_of(step.role))]});
  }
}

void ParallelForward::arrived(StepId id) {
  const Step& step = step_of(id);
  if (setup_.context == nullptr) {
    return arrived_alone(step);
  }
  Group& group = group_of(step);
  const std::size_t tensor = index_of(tensor_of(step.role));
  group.transfers[tensor]->finish();
  group.sent[tensor] = at::Tensor();
}

std::vector<at::Tensor> ParallelForward::velocities() const {
  std::vector<at::Tensor> branches;
  for (const Unit& unit : units_) {
    branches.insert(branches.end(), unit.velocity.begin(), unit.velocity.end());
  }
  return branches;
}

std::optional<int> ParallelForward::first_not_finite() const {
  std::optional<int> first;
  for (const Unit& unit : units_) {
    const auto broken = std::find_if(unit.sums.begin(), unit.sums.end(), [](const at::Tensor& sum) {
      return !std::isfinite(sum.item<double>());
    });
    const auto layer = static_cast<int>(broken - unit.sums.begin());
    if (broken != unit.sums.end() && layer < first.value_or(layer + 1)) {
      first = layer;
    }
  }
  return first;
}

void ParallelForward::note_bytes(StepGraph& graph) const {
  if (setup_.context == nullptr) {
    return;
  }
  for (Step& step : graph.steps) {
    if (!is_exchange(step.role)) {
      continue;
    }
    const Group& group =
        units_[static_cast<std::size_t>(step.unit)].groups[static_cast<std::size_t>(step.group)];
    step.slow_bytes = group.transfers[index_of(tensor_of(step.role))]->slow_bytes(step.layer);
  }
}

TransferTimes ParallelForward::take_times() {
  TransferTimes times;
  for (Unit& unit : units_) {
    for (Group& group : unit.groups) {
      for (const auto& transfer : group.transfers) {
        times += transfer != nullptr ? transfer->take_times() : TransferTimes{};
      }
    }
  }
  return times;
}

std::vector<std::uint64_t> ParallelForward::rows_by_age() const {
  std::vector<std::uint64_t> rows;
  for (const Unit& unit : units_) {
    for (const Group& group : unit.groups) {
      for (const auto& transfer : group.transfers) {
        if (transfer != nullptr) {
          transfer->count_ages(rows);
        }
      }
    }
  }
  return rows;
}

}  // namespace dit
