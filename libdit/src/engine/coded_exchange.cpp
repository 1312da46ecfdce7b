#include "engine/coded_exchange.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "engine/bytes.hpp"

namespace dit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr WireTensor kTensors[] = {WireTensor::query, WireTensor::key, WireTensor::value, WireTensor::output};

/// Adds the time until its end.
class Watch {
 public:
  explicit Watch(double& seconds) : seconds_(seconds) {}
  ~Watch() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  double& seconds_;
  Clock::time_point begin_ = Clock::now();
};

WirePlan::Shape plan_shape(int layers, int steps, const ExchangeContext& context) {
  return {layers, steps, context.levels(), context.slow_level()};
}

std::vector<int> levels_of_peers(const ExchangeContext& whole, const ExchangeContext& context) {
  const std::vector<std::string> names = context.levels();
  std::vector<int> levels;
  for (int peer = 0; peer < context.size(); ++peer) {
    levels.push_back(peer == context.rank()
                         ? 0
                         : whole.level_named(names[static_cast<std::size_t>(context.level_of(peer))]));
  }
  return levels;
}

PeerFlags remembered_peers(const WirePlan& plan, std::span<const int> peer_levels, int rank,
                           WireTensor tensor, int layer) {
  const auto flags = [&](WireEnd end) {
    std::vector<std::uint8_t> of_peers;
    for (std::size_t peer = 0; peer < peer_levels.size(); ++peer) {
      const bool other = peer != static_cast<std::size_t>(rank);
      of_peers.push_back(other && plan.remembers(tensor, peer_levels[peer], layer, end) ? 1 : 0);
    }
    return of_peers;
  };
  return {flags(WireEnd::sender), flags(WireEnd::receiver)};
}

MemoryOptions memory_of(const WirePlan& plan) {
  return {plan.policy().momentum, plan.ages(), plan.policy().most_age};
}

AttentionTensor attention_tensor(WireTensor tensor) {
  return static_cast<AttentionTensor>(tensor);  // query, key, value in both
}

ExchangeLayout exchange_layout(const UlyssesLayout& layout, WireTensor tensor, int rank, int group,
                               int groups) {
  return tensor == WireTensor::output ? layout.gather_heads(rank, group, groups)
                                      : layout.scatter_heads(attention_tensor(tensor), rank, group, groups);
}

}  // namespace

WireElement wire_element(at::ScalarType dtype) {
  if (dtype != at::kFloat && dtype != at::kBFloat16) {
    throw std::logic_error(std::string("wire policy for tensors of ") + c10::toString(dtype));
  }
  return dtype == at::kFloat ? WireElement::fp32 : WireElement::bf16;
}

WireRun::WireRun(const WirePolicy& policy, int layers, int steps, const ExchangeContext& whole,
                 ExchangeContext& context, const UlyssesLayout& layout, int groups, at::ScalarType dtype)
    : plan_(policy, plan_shape(layers, steps, whole)),
      layout_(layout),
      rank_(context.rank()),
      groups_(groups),
      element_(wire_element(dtype)),
      peer_levels_(levels_of_peers(whole, context)) {
  for (const WireTensor tensor : kTensors) {
    for (int layer = 0; layer < layers; ++layer) {
      for (int step = 0; step < steps; ++step) {
        for (int branch = 0; branch < 2; ++branch) {
          const std::vector<WireMode> table = plain_modes(tensor, {layer, step, branch});
          for (const std::vector<WireMode>& used : {table, guarded(table)}) {
            if (std::find(tables_.begin(), tables_.end(), used) == tables_.end()) {
              tables_.push_back(used);
            }
          }
        }
      }
    }
  }
  first_id_ = context.take_layout_ids(tables_.size() * kWireTensors * static_cast<std::uint64_t>(groups) * 2);
}

std::vector<WireMode> WireRun::plain_modes(WireTensor tensor, const WirePlace& place) const {
  std::vector<WireMode> modes;
  for (int level = 0; level < static_cast<int>(plan_.shape().levels.size()); ++level) {
    modes.push_back(plan_.mode(tensor, level, place.layer, place.step, place.branch));
  }
  return modes;
}

std::vector<WireMode> WireRun::guarded(std::vector<WireMode> modes) {
  for (WireMode& mode : modes) {
    if (!mode.is_exact()) {
      mode = WireMode{};
      mode.format = WireFormat::bf16;
    }
  }
  return modes;
}

bool WireRun::is_watched(WireTensor tensor, const WirePlace& place) const {
  const std::vector<WireMode> modes = modes_by_level(tensor, place);
  return plan_.policy().guard > 0 &&
         std::any_of(modes.begin(), modes.end(), [](const WireMode& mode) { return !mode.is_exact(); });
}

std::vector<WireMode> WireRun::modes_by_level(WireTensor tensor, const WirePlace& place) const {
  const std::vector<WireMode> modes = plain_modes(tensor, place);
  return place.guarded ? guarded(modes) : modes;
}

std::vector<WireMode> WireRun::modes(WireTensor tensor, const WirePlace& place) const {
  std::vector<WireMode> modes;
  const std::vector<WireMode> by_level = modes_by_level(tensor, place);
  for (std::size_t peer = 0; peer < peer_levels_.size(); ++peer) {
    const bool own = peer == static_cast<std::size_t>(rank_);  // never leaves the rank
    modes.push_back(own ? WireMode{} : by_level[static_cast<std::size_t>(peer_levels_[peer])]);
  }
  return modes;
}

bool WireRun::is_late(WireTensor tensor, const WirePlace& place) const {
  const std::vector<WireMode> modes = modes_by_level(tensor, place);
  return std::any_of(modes.begin(), modes.end(), [](const WireMode& mode) { return mode.late; });
}

std::uint64_t WireRun::layout_id(WireTensor tensor, int group, const WirePlace& place, WirePart part) const {
  const auto table = std::find(tables_.begin(), tables_.end(), modes_by_level(tensor, place));
  const auto index = static_cast<std::uint64_t>(table - tables_.begin());
  // Keys and values always go alike; queries go like them where no head is shared.
  const bool like_value =
      tensor == WireTensor::key || (tensor == WireTensor::query && layout_.queries_go_like_keys());
  const auto sizes_of = static_cast<std::uint64_t>(like_value ? WireTensor::value : tensor);
  const std::uint64_t exchange = static_cast<std::uint64_t>(group) * kWireTensors + sizes_of;
  return first_id_ + (exchange * tables_.size() + index) * 2 + static_cast<std::uint64_t>(part);
}

PeerFlags WireRun::remembered(WireTensor tensor, int layer) const {
  return remembered_peers(plan_, peer_levels_, rank_, tensor, layer);
}

ExchangeLayout WireRun::layout_of(WireTensor tensor, int group) const {
  return exchange_layout(layout_, tensor, rank_, group, groups_);
}

SampleRows WireRun::sample_rows(WireTensor tensor) const {
  SampleRows rows;
  rows.samples = layout_.shape().batch;
  for (int peer = 0; peer < layout_.ranks() && tensor != WireTensor::output; ++peer) {
    const AttentionTensor scattered = attention_tensor(tensor);
    rows.whole.sent.push_back(layout_.scatters_all_rows(scattered, rank_, peer) ? 1 : 0);
    rows.whole.received.push_back(layout_.scatters_all_rows(scattered, peer, rank_) ? 1 : 0);
  }
  return rows;
}

MemoryOptions WireRun::memory_options() const {
  return memory_of(plan_);
}

CodedExchange::CodedExchange(const WireRun& run, WireTensor tensor, int group)
    : run_(&run),
      tensor_(tensor),
      group_(group),
      blocks_(run.layout_of(tensor, group), run.element(), run.sample_rows(tensor)) {
  for (int layer = 0; layer < run.plan().shape().layers; ++layer) {
    const PeerFlags remembered = run.remembered(tensor, layer);
    const std::vector<std::uint8_t>& flags = remembered.received;  // a sender's memory has its receiver's
    const bool any = std::find(flags.begin(), flags.end(), std::uint8_t{1}) != flags.end();
    memories_.push_back(
        any ? std::make_unique<ExchangeMemory>(blocks_.layout(), remembered, run.memory_options()) : nullptr);
  }
}

void CodedExchange::pack(ExchangeContext& context, const at::Tensor& source, const WirePlace& place,
                         std::span<const std::uint32_t> active) {
  finish_late(place.layer);
  place_ = place;
  const at::Tensor tensor = source.contiguous();
  const bool watched = run_->is_watched(tensor_, place);
  if (watched && memory() != nullptr) {
    memory()->keep_sent(kept_);
  }
  const double left_behind = encode(bytes_of(tensor), active, watched);
  if (!watched || !is_any_beyond(context, left_behind)) {
    return;
  }
  if (memory() != nullptr) {
    memory()->put_back_sent(kept_);
  }
  place_.guarded = true;
  static_cast<void>(encode(bytes_of(tensor), active, false));
  ++guarded_;
}

bool CodedExchange::is_any_beyond(ExchangeContext& context, double left_behind) {
  const Watch watch(waiting_seconds_);
  const bool own = !(left_behind <= run_->plan().policy().guard);  // not a number is beyond all bounds
  const auto all = context.all_gather(std::as_bytes(std::span(&own, 1)));
  return std::any_of(all.begin(), all.end(), [](std::byte flag) { return flag != std::byte{0}; });
}

double CodedExchange::encode(std::span<const std::byte> tensor, std::span<const std::uint32_t> active,
                             bool watched) {
  const Watch watch(seconds_);
  modes_ = run_->modes(tensor_, place_);
  sizes_ = blocks_.sizes(modes_);
  send_.resize(std::max(send_.size(), sizes_.send_bytes));
  recv_.resize(std::max(recv_.size(), sizes_.recv_bytes));
  CodedBlocks::Loss loss;
  blocks_.encode(modes_, WirePart::now, tensor, memory(), send_, watched ? &loss : nullptr, active);
  const auto late = late_.find(place_.layer);
  if (late != late_.end()) {
    late->second.under_way = false;  // of an encoding that is not sent
  }
  if (run_->is_late(tensor_, place_)) {
    pack_late(tensor, watched ? &loss : nullptr);
  }
  return loss.whole > 0 ? std::sqrt(loss.error / loss.whole) : 0;
}

void CodedExchange::pack_late(std::span<const std::byte> tensor, CodedBlocks::Loss* loss) {
  Late& late = late_[place_.layer];
  late.modes = modes_;
  late.sizes = blocks_.sizes(modes_, WirePart::later);
  late.send.resize(late.sizes.send_bytes);
  late.recv.resize(late.sizes.recv_bytes);
  late.under_way = true;
  blocks_.encode(modes_, WirePart::later, tensor, memory(), late.send, loss);
}

/// What the step before sent for this one.
void CodedExchange::finish_late(int layer) {
  const auto found = late_.find(layer);
  if (found == late_.end() || !found->second.under_way) {
    return;
  }
  Late& late = found->second;
  late.under_way = false;
  {
    const Watch watch(waiting_seconds_);
    late.request.wait();
  }
  const Watch watch(seconds_);
  blocks_.remember(late.modes, late.recv, memories_[static_cast<std::size_t>(layer)].get());
}

dit_exchange_call CodedExchange::call_of(WirePart part, const CodedBlocks::Sizes& sizes,
                                         const char* label) const {
  dit_exchange_call call{};
  call.send_blocks = sizes.send.data();
  call.recv_blocks = sizes.recv.data();
  call.memory_kind = DIT_MEMORY_HOST;
  call.label = label;
  call.layout_id = run_->layout_id(tensor_, group_, place_, part);
  return call;
}

ExchangeRequest CodedExchange::start(ExchangeContext& context, bool blocking, const char* label) {
  dit_exchange_call call = call_of(WirePart::now, sizes_, label);
  call.send = send_.data();
  call.recv = recv_.data();
  call.flags = blocking ? DIT_EXCHANGE_BLOCKING : 0U;
  ExchangeRequest request = context.start(call);
  if (run_->is_late(tensor_, place_)) {
    Late& late = late_[place_.layer];
    call = call_of(WirePart::later, late.sizes, label);
    call.send = late.send.data();
    call.recv = late.recv.data();
    late.request = context.start(call);
  }
  return request;
}

void CodedExchange::finish(const at::Tensor& target) {
  const Watch watch(seconds_);
  blocks_.decode(modes_, recv_, memory(), writable_bytes_of(target));
}

int CodedExchange::take_guarded() {
  return std::exchange(guarded_, 0);
}

double CodedExchange::take_seconds() {
  return std::exchange(seconds_, 0);
}

double CodedExchange::take_waiting_seconds() {
  return std::exchange(waiting_seconds_, 0);
}

std::uint64_t CodedExchange::slow_bytes(const ExchangeContext& context, int layer) const {
  std::uint64_t bytes = 0;
  const int steps = run_->plan().shape().steps;
  for (int step = 0; step < steps; ++step) {
    const std::vector<WireMode> modes = run_->modes(tensor_, {layer, step, 0});
    for (const WirePart part : {WirePart::now, WirePart::later}) {
      const CodedBlocks::Sizes sizes = blocks_.sizes(modes, part);
      for (int peer = 0; peer < context.size(); ++peer) {
        const bool slow = peer != context.rank() && context.level_of(peer) >= context.slow_level();
        bytes += slow ? sizes.send[static_cast<std::size_t>(peer)].bytes : 0;
      }
    }
  }
  return bytes / static_cast<std::uint64_t>(std::max(steps, 1));
}

void CodedExchange::count_ages(std::vector<std::uint64_t>& rows_by_age) const {
  for (const auto& memory : memories_) {
    if (memory == nullptr) {
      continue;
    }
    for (const std::uint16_t age : memory->ages()) {
      if (rows_by_age.size() <= age) {
        rows_by_age.resize(age + std::size_t{1});
      }
      ++rows_by_age[age];
    }
  }
}

CacheBytes wire_memory(const WirePlan& plan, const UlyssesLayout& layout, int rank, int groups, int units,
                       std::span<const int> peer_levels) {
  CacheBytes bytes;
  for (int layer = 0; layer < plan.shape().layers; ++layer) {
    for (const WireTensor tensor : kTensors) {
      const PeerFlags remembered = remembered_peers(plan, peer_levels, rank, tensor, layer);
      for (int group = 0; group < groups; ++group) {
        const CacheBytes each = ExchangeMemory::bytes(exchange_layout(layout, tensor, rank, group, groups),
                                                      remembered, memory_of(plan));
        bytes.reference += each.reference * static_cast<std::uint64_t>(units);
        bytes.received += each.received * static_cast<std::uint64_t>(units);
      }
    }
  }
  return bytes;
}

}  // namespace dit
