#include "transfer/coded_transfer.hpp"

#include <algorithm>
#include <chrono>
#include <string>
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
                             int branches, int memory_kind, std::unique_ptr<BlockCoder> coder)
    : TensorTransfer(context, run.layout(), part, memory_kind, true),
      run_(run),
      part_(part),
      branches_(branches),
      coder_(coder != nullptr ? std::move(coder)
                              : BlockCoder::make(memory_kind, coded_blocks(), run.element(),
                                                 run.sample_rows(part.tensor))),
      most_(most_bytes()) {
  for (int branch = 0; branch < branches; ++branch) {
    for (int layer = 0; layer < run.plan().shape().layers; ++layer) {
      const PeerFlags remembered = run.remembered(part.tensor, layer);
      const std::vector<std::uint8_t>& flags = remembered.received;  // a sender's memory has its receiver's
      const bool any = std::find(flags.begin(), flags.end(), std::uint8_t{1}) != flags.end();
      layers_.emplace_back();
      if (any) {
        layers_.back().memory = coder_->make_memory(remembered, run.memory_options());
      }
    }
  }
}

// Nobody but this rank sees its own block, which is never coded.
ExchangeLayout CodedTransfer::coded_blocks() const {
  ExchangeLayout all = run_.blocks(part_.tensor, part_.group);
  const std::size_t each = run_.blocks_of_peer();
  for (std::size_t own = 0; on_device() && own < each; ++own) {
    const std::size_t at = static_cast<std::size_t>(context().rank()) * each + own;
    all.send[at] = all.recv[at] = {};
  }
  return all;
}

std::size_t CodedTransfer::index_of(const TransferPlace& place) const {
  const int branch = branches_ > 1 ? place.branch : 0;
  return static_cast<std::size_t>(branch * run_.plan().shape().layers + place.layer);
}

const ResolvedWire& CodedTransfer::resolve(const TransferPlace& place, bool seen) const {
  return run_.resolve(part_.tensor, seen ? place : at_first(place));
}

void CodedTransfer::require_startable(const TransferPlace& place, void* stream) const {
  if (resolve(place, layers_[index_of(place)].seen).watched && !coder_->can_watch(stream)) {
    throw ExchangeError(DIT_ERROR_UNSUPPORTED,
                        "a stream that is captured, under a policy with guard = " +
                            std::to_string(run_.plan().policy().guard) +
                            ": expected one that is not, as the host waits for what the guard sees");
  }
}

void CodedTransfer::pack(const SourceTensor& source, const TransferPlace& place,
                         std::span<const std::uint32_t> active, void* stream) {
  source_ = source;
  layer_ = &layers_[index_of(place)];
  resolved_ = &resolve(place, std::exchange(layer_->seen, true));
  finish_late(stream);
  BlockCoder::Memory* memory = layer_->memory.get();
  const bool watched = resolved_->watched;
  if (watched && memory != nullptr) {
    coder_->keep_sent(*memory, stream);
  }
  encode(source, active, watched, stream);
  if (!watched || !is_any_beyond(stream)) {
    return;
  }
  if (memory != nullptr) {
    coder_->put_back_sent(*memory, stream);
  }
  resolved_ = &run_.guarded(*resolved_);
  encode(source, active, false, stream);
  ++times_.guarded;
}

bool CodedTransfer::is_any_beyond(void* stream) {
  const Watch watch(times_.waiting_seconds);
  const bool own = !(relative(coder_->take_loss(stream)) <=
                     run_.plan().policy().guard);  // not a number is beyond all bounds
  const auto all = context().all_gather(std::as_bytes(std::span(&own, 1)), channel());
  return std::any_of(all.begin(), all.end(), [](std::byte flag) { return flag != std::byte{0}; });
}

void CodedTransfer::encode(const SourceTensor& source, std::span<const std::uint32_t> active, bool watched,
                           void* stream) {
  const Watch watch(times_.coding_seconds);
  sizes_ = sizes_of(*resolved_, WirePart::now);
  const auto [send, recv] = on_device() ? most_ : std::pair(sizes_.send_bytes, sizes_.recv_bytes);
  reserve(buffers_.send, send, memory());
  reserve(buffers_.recv, recv, memory());
  coder_->encode(resolved_->by_block, WirePart::now, source, layer_->memory.get(), buffers_.send, watched,
                 active, stream);
  layer_->late = nullptr;  // of an encoding that is not sent
  if (resolved_->late) {
    encode_late(source, watched, stream);
  }
}

void CodedTransfer::encode_late(const SourceTensor& source, bool watched, void* stream) {
  layer_->late = resolved_;
  layer_->late_sizes = sizes_of(*resolved_, WirePart::later);
  reserve(layer_->late_buffers.send, layer_->late_sizes.send_bytes, memory());
  reserve(layer_->late_buffers.recv, layer_->late_sizes.recv_bytes, memory());
  coder_->encode(resolved_->by_block, WirePart::later, source, layer_->memory.get(),
                 layer_->late_buffers.send, watched, {}, stream);
}

void CodedTransfer::wait_for_late(Layer& layer, void* stream) {
  const Watch watch(times_.waiting_seconds);
  if (on_device()) {
    layer.late_request.wait_stream(stream);
    layer.late_request.cancel();  // nobody asks for it any more: the stream sees to the rest
  } else {
    layer.late_request.wait();
  }
}

/// What the step before sent for this one.
void CodedTransfer::finish_late(void* stream) {
  const ResolvedWire* late = std::exchange(layer_->late, nullptr);
  if (late == nullptr) {
    return;
  }
  wait_for_late(*layer_, stream);
  const Watch watch(times_.coding_seconds);
  coder_->remember(late->by_block, layer_->late_buffers.recv, layer_->memory.get(), stream);
}

CodedBlocks::Sizes CodedTransfer::sizes_of(const ResolvedWire& resolved, WirePart part) const {
  return CodedBlocks::of_peers(coder_->sizes(resolved.by_block, part), run_.blocks_of_peer());
}

dit_exchange_call CodedTransfer::call_of(WirePart part, const CodedBlocks::Sizes& sizes,
                                         const TransferStart& how) const {
  dit_exchange_call call{};
  call.send_blocks = sizes.send.data();
  call.recv_blocks = sizes.recv.data();
  call.memory_kind = memory_kind();
  call.device = how.device;
  call.stream = stream_;
  call.label = how.label;
  call.channel = channel();
  call.layout_id = run_.layout_id(part_.tensor, part_.group, *resolved_, part);
  return call;
}

std::shared_ptr<void> CodedTransfer::kept(const TransferBuffers& buffers) const {
  return on_device() ? nullptr : std::make_shared<TransferBuffers>(buffers);
}

ExchangeRequest CodedTransfer::start(const TargetTensor& target, const TransferStart& how) {
  target_ = target;
  copy_own(source_, target, bytes_of(run_.element()), how);
  stream_ = exchange_stream(how.stream, how.exchange_stream);
  dit_exchange_call call = call_of(WirePart::now, sizes_, how);
  call.send = buffers_.send.data();
  call.recv = buffers_.recv.data();
  call.flags = how.blocking ? DIT_EXCHANGE_BLOCKING : 0U;
  ExchangeRequest request = context().start(call, kept(buffers_));
  if (layer_->late != nullptr) {
    call = call_of(WirePart::later, layer_->late_sizes, how);
    call.send = layer_->late_buffers.send.data();
    call.recv = layer_->late_buffers.recv.data();
    layer_->late_request = context().start(call, kept(layer_->late_buffers));
  }
  return request;
}

void CodedTransfer::finish() {
  finish_on(stream_);
  memory().wait(stream_);
}

void CodedTransfer::finish_on(void* stream) {
  const Watch watch(times_.coding_seconds);
  coder_->decode(resolved_->by_block, buffers_.recv, layer_->memory.get(), target_, stream);
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
      bytes += slow_bytes_of(sizes_of(resolved, part).send);
    }
  }
  return bytes / static_cast<std::uint64_t>(std::max(steps, 1));
}

std::pair<std::size_t, std::size_t> CodedTransfer::most_bytes() const {
  std::pair<std::size_t, std::size_t> most{0, 0};
  for (const ResolvedWire& resolved : run_.all()) {
    const CodedBlocks::Sizes sizes = sizes_of(resolved, WirePart::now);
    most = {std::max(most.first, sizes.send_bytes), std::max(most.second, sizes.recv_bytes)};
  }
  return most;
}

std::size_t CodedTransfer::workspace_bytes() const {
  return TransferBuffers::workspace_bytes(most_.first, most_.second);
}

void CodedTransfer::use_workspace(std::span<std::byte> workspace) {
  buffers_.lie_in(workspace, most_.first, most_.second);
}

void CodedTransfer::wait_for_late() {
  for (Layer& layer : layers_) {
    layer.late_request.wait();
  }
}

void CodedTransfer::forget(void* stream) {
  for (Layer& layer : layers_) {
    if (std::exchange(layer.late, nullptr) != nullptr) {
      wait_for_late(layer, stream);
    }
    layer.seen = false;
    if (layer.memory != nullptr) {
      layer.memory->forget(stream);
    }
  }
}

void CodedTransfer::have_travelled(int branch) {
  const auto layers = static_cast<std::size_t>(run_.plan().shape().layers);
  const std::size_t first = index_of({0, 0, branch});
  for (Layer& layer : std::span(layers_).subspan(first, layers)) {
    layer.seen = true;
  }
}

TransferBuffers CodedTransfer::release_buffers() {
  for (Layer& layer : layers_) {
    layer.late_request.cancel();  // its buffers are its own
  }
  return std::exchange(buffers_, {});
}

void CodedTransfer::count_ages(std::vector<std::uint64_t>& rows_by_age) const {
  for (const Layer& layer : layers_) {
    if (layer.memory != nullptr) {
      layer.memory->count_ages(rows_by_age);
    }
  }
}

}  // namespace dit
