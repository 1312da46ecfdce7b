#include "transfer/coded_transfer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace dit {
namespace {

using Clock = std::chrono::steady_clock;

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

void reserve(TransferBuffer& buffer, std::size_t bytes, const TransferMemory& memory) {
  if (buffer.size() < bytes) {
    buffer = memory.allocate(bytes);
  }
}

}  // namespace

CodedTransfer::CodedTransfer(ExchangeContext& context, const WireRun& run, const TransferPart& part,
                             int branches)
    : TensorTransfer(context, run.layout(), part),
      run_(run),
      part_(part),
      branches_(branches),
      coded_(blocks(), run.element(), run.sample_rows(part.tensor)),
      memory_(TransferMemory::of(DIT_MEMORY_HOST)) {
  for (int branch = 0; branch < branches; ++branch) {
    for (int layer = 0; layer < run.plan().shape().layers; ++layer) {
      const PeerFlags remembered = run.remembered(part.tensor, layer);
      const std::vector<std::uint8_t>& flags = remembered.received;  // a sender's memory has its receiver's
      const bool any = std::find(flags.begin(), flags.end(), std::uint8_t{1}) != flags.end();
      layers_.emplace_back();
      if (any) {
        layers_.back().memory =
            std::make_unique<ExchangeMemory>(coded_.layout(), remembered, run.memory_options());
      }
    }
  }
}

CodedTransfer::Layer& CodedTransfer::layer_of(const TransferPlace& place) {
  const int branch = branches_ > 1 ? place.branch : 0;
  return layers_[static_cast<std::size_t>(branch * run_.plan().shape().layers + place.layer)];
}

void CodedTransfer::pack(const SourceTensor& source, const TransferPlace& place,
                         std::span<const std::uint32_t> active, void* /*stream*/) {
  layer_ = &layer_of(place);
  resolved_ = &run_.resolve(part_.tensor, std::exchange(layer_->seen, true) ? place : at_first(place));
  finish_late();
  ExchangeMemory* memory = layer_->memory.get();
  const bool watched = resolved_->watched;
  if (watched && memory != nullptr) {
    memory->keep_sent(kept_);
  }
  const double left_behind = encode(source, active, watched);
  if (!watched || !is_any_beyond(left_behind)) {
    return;
  }
  if (memory != nullptr) {
    memory->put_back_sent(kept_);
  }
  resolved_ = &run_.guarded(*resolved_);
  static_cast<void>(encode(source, active, false));
  ++times_.guarded;
}

bool CodedTransfer::is_any_beyond(double left_behind) {
  const Watch watch(times_.waiting_seconds);
  const bool own = !(left_behind <= run_.plan().policy().guard);  // not a number is beyond all bounds
  const auto all = context().all_gather(std::as_bytes(std::span(&own, 1)), channel());
  return std::any_of(all.begin(), all.end(), [](std::byte flag) { return flag != std::byte{0}; });
}

double CodedTransfer::encode(const SourceTensor& source, std::span<const std::uint32_t> active,
                             bool watched) {
  const Watch watch(times_.coding_seconds);
  sizes_ = coded_.sizes(resolved_->by_peer);
  reserve(buffers_.send, sizes_.send_bytes, memory_);
  reserve(buffers_.recv, sizes_.recv_bytes, memory_);
  CodedBlocks::Loss loss;
  coded_.encode(resolved_->by_peer, WirePart::now, source, layer_->memory.get(), buffers_.send.span(),
                watched ? &loss : nullptr, active);
  layer_->late = nullptr;  // of an encoding that is not sent
  if (resolved_->late) {
    encode_late(source, watched ? &loss : nullptr);
  }
  return loss.whole > 0 ? std::sqrt(loss.error / loss.whole) : 0;
}

void CodedTransfer::encode_late(const SourceTensor& source, CodedBlocks::Loss* loss) {
  layer_->late = resolved_;
  layer_->late_sizes = coded_.sizes(resolved_->by_peer, WirePart::later);
  reserve(layer_->late_buffers.send, layer_->late_sizes.send_bytes, memory_);
  reserve(layer_->late_buffers.recv, layer_->late_sizes.recv_bytes, memory_);
  coded_.encode(resolved_->by_peer, WirePart::later, source, layer_->memory.get(),
                layer_->late_buffers.send.span(), loss);
}

/// What the step before sent for this one.
void CodedTransfer::finish_late() {
  const ResolvedWire* late = std::exchange(layer_->late, nullptr);
  if (late == nullptr) {
    return;
  }
  {
    const Watch watch(times_.waiting_seconds);
    layer_->late_request.wait();
  }
  const Watch watch(times_.coding_seconds);
  coded_.remember(late->by_peer, layer_->late_buffers.recv.span(), layer_->memory.get());
}

dit_exchange_call CodedTransfer::call_of(WirePart part, const CodedBlocks::Sizes& sizes,
                                         const TransferStart& how) const {
  dit_exchange_call call{};
  call.send_blocks = sizes.send.data();
  call.recv_blocks = sizes.recv.data();
  call.memory_kind = DIT_MEMORY_HOST;
  call.label = how.label;
  call.channel = channel();
  call.layout_id = run_.layout_id(part_.tensor, part_.group, *resolved_, part);
  return call;
}

ExchangeRequest CodedTransfer::start(const TargetTensor& target, const TransferStart& how) {
  target_ = target;
  dit_exchange_call call = call_of(WirePart::now, sizes_, how);
  call.send = buffers_.send.data();
  call.recv = buffers_.recv.data();
  call.flags = how.blocking ? DIT_EXCHANGE_BLOCKING : 0U;
  ExchangeRequest request = context().start(call, std::make_shared<TransferBuffers>(buffers_));
  if (layer_->late != nullptr) {
    call = call_of(WirePart::later, layer_->late_sizes, how);
    call.send = layer_->late_buffers.send.data();
    call.recv = layer_->late_buffers.recv.data();
    layer_->late_request = context().start(call, std::make_shared<TransferBuffers>(layer_->late_buffers));
  }
  return request;
}

void CodedTransfer::finish() {
  const Watch watch(times_.coding_seconds);
  coded_.decode(resolved_->by_peer, buffers_.recv.span(), layer_->memory.get(), target_);
}

void CodedTransfer::finish_on(void* /*stream*/) {
  finish();
}

TransferTimes CodedTransfer::take_times() {
  return std::exchange(times_, {});
}

std::uint64_t CodedTransfer::slow_bytes(int layer) const {
  std::uint64_t bytes = 0;
  const int steps = run_.plan().shape().steps;
  for (int step = 0; step < steps; ++step) {
    const ResolvedWire& resolved = run_.resolve(part_.tensor, {layer, step, 0});
    for (const WirePart part : {WirePart::now, WirePart::later}) {
      bytes += slow_bytes_of(coded_.sizes(resolved.by_peer, part).send);
    }
  }
  return bytes / static_cast<std::uint64_t>(std::max(steps, 1));
}

std::pair<std::size_t, std::size_t> CodedTransfer::most_bytes() const {
  std::pair<std::size_t, std::size_t> most{0, 0};
  for (const ResolvedWire& resolved : run_.all()) {
    const CodedBlocks::Sizes sizes = coded_.sizes(resolved.by_peer);
    most = {std::max(most.first, sizes.send_bytes), std::max(most.second, sizes.recv_bytes)};
  }
  return most;
}

std::size_t CodedTransfer::workspace_bytes() const {
  const auto [send, recv] = most_bytes();
  return TransferBuffers::workspace_bytes(send, recv);
}

void CodedTransfer::use_workspace(std::span<std::byte> workspace) {
  const auto [send, recv] = most_bytes();
  buffers_.lie_in(workspace, send, recv);
}

void CodedTransfer::wait_for_late() {
  for (Layer& layer : layers_) {
    layer.late_request.wait();
  }
}

std::shared_ptr<void> CodedTransfer::release_buffers() {
  for (Layer& layer : layers_) {
    layer.late_request.cancel();  // its buffers are its own
  }
  return std::make_shared<TransferBuffers>(std::exchange(buffers_, {}));
}

void CodedTransfer::count_ages(std::vector<std::uint64_t>& rows_by_age) const {
  for (const Layer& layer : layers_) {
    if (layer.memory == nullptr) {
      continue;
    }
    for (const std::uint16_t age : layer.memory->ages()) {
      if (rows_by_age.size() <= age) {
        rows_by_age.resize(age + std::size_t{1});
      }
      ++rows_by_age[age];
    }
  }
}

}  // namespace dit
