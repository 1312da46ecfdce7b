#include "engine/image_run.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "engine/gather_rows.hpp"
#include "engine/shared_order.hpp"
#include "engine/tensor_views.hpp"
#include "models/patches.hpp"

namespace dit {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Orders are made for shares up to a tenth apart: one for each step's own would not be worth its time.
TensorShares rounded(TensorShares shares) {
  for (double& share : shares) {
    if (share > 0) share = std::exp2(std::round(std::log2(share) * 4.0) / 4.0);
  }
  return shares;
}

/// Steps of about the same shares: their number and their mean.
struct SharesKind {
  TensorShares about{};
  TensorShares sum{};
  int steps = 0;
  [[nodiscard]] TensorShares mean() const {
    TensorShares shares = sum;
    for (double& share : shares) share /= steps;
    return shares;
  }
};
std::vector<SharesKind> kinds_of(const std::vector<TensorShares>& steps) {
  std::vector<SharesKind> kinds;
  for (const TensorShares& step : steps) {
    const TensorShares about = rounded(step);
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const SharesKind& known) { return known.about == about; });
    if (kind == kinds.end()) kind = kinds.insert(kind, SharesKind{about, {}, 0});
    for (std::size_t tensor = 0; tensor < step.size(); ++tensor) kind->sum[tensor] += step[tensor];
    ++kind->steps;
  }
  return kinds;
}

}  // namespace

ImageRun::ImageRun(const ModelShape& model, ExchangeContext* context, ExchangeContext* half,
                   const GenerateOptions& options, StepEstimates& estimates)
    : context_(context),
      half_(half),
      options_(options),
      estimates_(estimates),
      shape_(shape_of(model, options, context)),
      layout_(layout_of(shape_, options)),
      branches_(plan_branches(shape_.mode, shape_.guided, options.label, model.classes,
                              context != nullptr ? context->rank() : 0,
                              context != nullptr ? context->size() : 1)),
      shared_(shape_.layout_ranks == 1 ? nullptr
              : half != nullptr        ? half
                                       : context) {}

void ImageRun::allocate(const Model& model) {
  model_ = &model;
  make_forward();
  make_graph();
  make_shares();
  options_.sampler.image_tokens = shape_.tokens;
  sampler_ = make_sampler(options_.sampler);
  const OwnTokens own = own_tokens(layout_, shared_ != nullptr ? shared_->rank() : 0, shape_.columns);
  if (options_.step_cache > 0) {
    step_cache_ = std::make_unique<StepCache>(model, own, context_, options_.step_cache, options_.label,
                                              at::TensorOptions(options_.dtype).device(options_.device));
  }
  const at::Tensor noise =
      seeded_noise(options_.seed, model.shape().channels, options_.height, options_.width);
  sample_ = patchify(noise.unsqueeze(0), model.shape().patch)
                .narrow(1, own.image.begin, own.image.size())
                .contiguous();
}

void ImageRun::make_forward() {
  const at::TensorOptions type = at::TensorOptions(options_.dtype).device(options_.device);
  if (shape_.coded) {
    wire_ =
        std::make_unique<WireRun>(*options_.wire, model_->shape().layers(), options_.sampler.steps, *context_,
                                  *shared_, layout_, options_.head_groups, wire_element(options_.dtype));
    if (wire_->plan().uses_v_major()) {
      active_rows_ = std::make_unique<ActiveRows>(wire_->plan(), layout_, shared_->rank(), shape_.units,
                                                  wire_element(options_.dtype));
    }
  }
  forward_ = std::make_unique<ParallelForward>(
      ForwardSetup{model_, shared_, wire_.get(), active_rows_.get(), branches_.conditional ? 0 : 1,
                   options_.observe, branches_.unit_labels, shape_.columns, options_.head_groups, type},
      layout_);
}

void ImageRun::make_graph() {
  BlockGraphOptions graph;
  graph.units = shape_.units;
  graph.layers = model_->shape().layers();
  graph.blocks = model_->shape().blocks;
  graph.groups = options_.head_groups;
  graph.selective = active_rows_ != nullptr;
  graph_ = transformer_graph(graph);
  forward_->note_bytes(graph_);
}

void ImageRun::make_shares() {
  for (int step = 0; step < options_.sampler.steps; ++step) {
    shares_.push_back(wire_ != nullptr ? tensor_shares(wire_->plan(), step, wire_element(options_.dtype))
                                       : kFullTensors);
  }
}

/// Takes what a step's exchanges and computations took, one after the other.
void ImageRun::learn(int step, const std::vector<double>& step_seconds) {
  TensorShares mean{};
  for (const TensorShares& each : shares_) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += each[i] / static_cast<double>(shares_.size());
  }
  StepGraph graph = graph_;  // has the mean bytes of all steps
  for (Step& each : graph.steps) {
    const double bytes = whole(static_cast<double>(each.slow_bytes), share_of(each.role, mean));
    each.slow_bytes = static_cast<std::uint64_t>(std::llround(bytes));
  }
  estimates_.add(graph, step_seconds, shares_[static_cast<std::size_t>(step)], context_);
}

double ImageRun::active_fraction(int step) const {
  return active_rows_ != nullptr ? wire_->plan().active_fraction(step) : 1.0;
}

/// The order to run next: of `pipelined` made from estimates, and to get these, first once without any
/// overlap.
void ImageRun::prepare_order(int step) {
  const bool needs_estimates = options_.schedule == Schedule::pipelined;
  measuring_ = needs_estimates && !estimates_.cover(graph_);
  if (measuring_) {
    order_ = flat_order(graph_);
    return;
  }
  const TensorShares shares =
      needs_estimates ? rounded(shares_[static_cast<std::size_t>(step)]) : kFullTensors;
  if (order_shares_ == shares) {
    return;
  }
  if (needs_estimates) {
    estimates_.fill(graph_, shares);
  }
  order_ = needs_estimates ? make_shared_order(options_.schedule, graph_, context_)
                           : make_order(options_.schedule, graph_);
  order_shares_ = shares;
}

ImageRun::Question ImageRun::question_of(int step) const {
  const FlowTime flow = sampler_->flow_time(step);
  return {flow.input_scale == 1.0 ? sample_ : sample_ * flow.input_scale, flow.t};
}

void ImageRun::begin_pass(int step, const Question& question) {
  ParallelForward::Pass pass;
  pass.patches = question.sample;
  pass.time = question.time;
  pass.step = step;
  pass.keep_layers = options_.record_layers && step == options_.sampler.steps - 1;
  forward_->begin(graph_, std::move(pass));
}

ExecutionTimes ImageRun::run_forward(int step, const Question& question) {
  prepare_order(step);
  begin_pass(step, question);
  ExecutionTimes times = execute(graph_, order_, *forward_, &trace_, step);
  if (measuring_) {
    learn(step, times.step_seconds);
  }
  return times;
}

at::Tensor ImageRun::guided_velocity(StepReport& report) {
  std::vector<at::Tensor> branches;
  for (const at::Tensor& velocity : forward_->velocities()) {
    branches.push_back(velocity.to(at::TensorOptions(at::kFloat).device(at::kCPU)));
  }
  if (branches_.partner >= 0) {
    const Clock::time_point begin = Clock::now();
    branches.push_back(exchange_with_partner(*context_, branches_.partner, branches[0]));
    report.exposed_seconds += seconds_since(begin);
    if (!branches_.conditional) {
      std::swap(branches[0], branches[1]);
    }
  }
  return branches.size() == 1 ? branches[0] : guided(branches[0], branches[1], options_.guidance);
}

ImageRun::Bytes ImageRun::sent() const {
  Bytes bytes;
  for (const ExchangeContext* context : std::initializer_list<const ExchangeContext*>{context_, half_}) {
    if (context == nullptr) {
      continue;
    }
    const dit_exchange_totals totals = context->totals();
    for (int level = 0; level < static_cast<int>(std::size(totals.sent_bytes)); ++level) {
      (level >= context->slow_level() ? bytes.slow : bytes.fast) += totals.sent_bytes[level];
    }
  }
  return bytes;
}

at::Tensor ImageRun::computed_velocity(int step, const Question& question, StepReport& report) {
  const ExecutionTimes times = run_forward(step, question);
  report.compute_seconds = times.compute_seconds;
  report.exposed_seconds = times.exposed_seconds;
  velocity_ = guided_velocity(report);
  return velocity_;
}

bool ImageRun::reuses(int step, const Question& question) {
  const std::vector<int>& only = options_.only_steps;
  if (!only.empty() && !std::binary_search(only.begin(), only.end(), step)) {
    return true;
  }
  const bool last = step == options_.sampler.steps - 1;
  return step_cache_ != nullptr && step_cache_->reuse(question.sample, question.time, last);
}

StepReport ImageRun::advance(int step) {
  StepReport report;
  const Bytes before = sent();
  const Clock::time_point begin = Clock::now();
  const Question question = question_of(step);
  report.reused = reuses(step, question);
  const at::Tensor velocity = report.reused ? velocity_ : computed_velocity(step, question, report);
  sample_ =
      sampler_->advance(step, sample_, answer_from_velocity(*sampler_, step, question.sample, velocity));
  require_finite(step);
  report.seconds = seconds_since(begin);
  const Bytes after = sent();
  report.slow_bytes = after.slow - before.slow;
  report.fast_bytes = after.fast - before.fast;
  if (wire_ != nullptr) {
    note_policy(step, report);
  }
  return report;
}

void ImageRun::require_finite(int step) const {
  if (!at::isfinite(sample_).all().item<bool>()) {
    throw NotFinite(step, forward_->first_not_finite(), options_);
  }
}

void ImageRun::note_policy(int step, StepReport& report) {
  report.active_fraction = report.reused ? 1 : active_fraction(step);
  const TransferTimes times = forward_->take_times();
  report.codec_seconds = times.coding_seconds;
  report.compute_seconds -= times.waiting_seconds;
  report.exposed_seconds += times.waiting_seconds;
  report.guarded = times.guarded;
  const std::vector<std::uint64_t> ages = forward_->rows_by_age();
  report.oldest_row = ages.empty() ? 0 : static_cast<int>(ages.size()) - 1;
}

std::vector<StepKind> ImageRun::measure() {
  const Order order = flat_order(graph_);
  for (const bool measured : {false, true}) {  // the first pass touches all memory for the first time
    begin_pass(0, question_of(0));
    const ExecutionTimes times = execute(graph_, order, *forward_);
    if (measured) {
      learn(0, times.step_seconds);
    }
  }
  std::vector<StepKind> kinds;
  for (const SharesKind& kind : kinds_of(shares_)) {
    estimates_.fill(graph_, kind.mean());
    kinds.push_back({graph_, static_cast<double>(kind.steps) / static_cast<double>(shares_.size())});
  }
  return kinds;
}

at::Tensor ImageRun::collect_rows(const at::Tensor& own) const {
  const int ranks = context_ != nullptr ? context_->size() : 1;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(ranks), 0);
  for (int rank = 0; rank < shape_.layout_ranks;
       ++rank) {  // with a branch per half of the ranks the first has all
    rows[static_cast<std::size_t>(rank)] = layout_.image_tokens(rank).size();
  }
  const std::int64_t own_rows = rows[static_cast<std::size_t>(context_ != nullptr ? context_->rank() : 0)];
  return gather_rows(
      context_, own.narrow(0, 0, own_rows).to(at::TensorOptions(at::kFloat).device(at::kCPU)).contiguous(),
      rows);
}

void ImageRun::collect(GenerateResult& result) {
  const at::Tensor patches = collect_rows(sample_[0]);
  const bool whole = context_ == nullptr || context_->rank() == 0;
  if (whole) {
    result.image = unpatchify(patches.unsqueeze(0), model_->shape().patch, options_.height, options_.width)[0]
                       .contiguous();
  }
  for (const at::Tensor& layer : forward_->kept_layers()) {
    const at::Tensor rows = collect_rows(layer);
    if (whole) {
      result.layers.push_back(rows);
    }
  }
  result.report.rows_by_age = forward_->rows_by_age();
  result.trace = std::move(trace_);
  result.graph = std::move(graph_);
}

}  // namespace dit
