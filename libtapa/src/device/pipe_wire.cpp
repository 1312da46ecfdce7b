#include "device/pipe_wire.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include "device/device_error.hpp"

namespace tapa::device {

namespace {

constexpr std::size_t kSlotBudget = std::size_t{64} << 20;  ///< bytes of all slots of a rank, or so
constexpr std::size_t kLongestSlot = std::size_t{60}
                                     << 10;  ///< see kPipeSlots; Open MPI's limit is 64 KiB for TCP
constexpr std::size_t kShortestSlot = std::size_t{4} << 10;

std::size_t pipes_of(std::size_t peers, int channels) {
  return peers * static_cast<std::size_t>(channels) * 2;
}

}  // namespace

void PipeWire::check_peers(std::size_t peers) {
  if (peers <= kMaxPeers) return;
  throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                    std::to_string(peers) + " ranks are on other nodes, expected at most " +
                        std::to_string(kMaxPeers) + " for wires of pipes; the wire nccl has no such limit");
}

PipeShape pipe_shape(int ranks, int most) {
  const int channels = std::clamp(2 * most / ranks, 1, most);
  const std::size_t slots = pipes_of(static_cast<std::size_t>(ranks), channels) * kPipeSlots;
  const std::size_t share = kSlotBudget / slots / kGrain * kGrain;
  const std::size_t chunk = std::clamp(share, kShortestSlot, kLongestSlot);
  return {channels, chunk};
}

PipeWire::PipeWire(int ranks, const std::vector<int>& peers, PipeMessengers messengers,
                   const PipeShape& shape, bool slots_on_device, LocalState* state, Word timeout)
    : shape_(shape),
      slots_on_device_(slots_on_device),
      first_entry_(static_cast<std::size_t>(ranks), -1),
      words_(pipes_of(peers.size(), shape_.channels) * sizeof(PipeWords)),
      missing_(static_cast<std::size_t>(ranks) * sizeof(Word)),
      own_(sizeof(LocalState)),
      passed_(pipes_of(peers.size(), shape_.channels) * sizeof(Word)),
      table_(pipes_of(peers.size(), shape_.channels) * sizeof(PipeEntry)) {
  check_peers(peers.size());
  const std::size_t bytes = pipes_of(peers.size(), shape_.channels) * kPipeSlots * shape_.chunk;
  if (slots_on_device) {
    device_slots_.emplace(bytes);
  } else {
    host_slots_.emplace(bytes);
  }
  auto* const own = reinterpret_cast<LocalState*>(own_.get());
  turn_ = {shape_.chunk, timeout, state, own};
  std::vector<PipeEntry> table;
  const std::vector<HostPipe> pipes = lay_out(peers, table);
  PrivateStream stream;
  const Word first = 1;
  stream.copy(&own->sequence, &first, sizeof(first));
  stream.copy(table_.get(), table.data(), table.size() * sizeof(PipeEntry));
  start(std::move(messengers), pipes);
}

void PipeWire::start(PipeMessengers messengers, const std::vector<HostPipe>& pipes) {
  name_ = messengers.name + messengers.each.front()->describe();
  const std::size_t count = messengers.each.size();
  std::vector<std::vector<HostPipe>> shares(count);
  for (const HostPipe& pipe : pipes)
    shares[static_cast<std::size_t>(pipe.address.channel) % count].push_back(pipe);
  for (std::size_t at = 0; at < count; ++at)
    proxies_.push_back(std::make_unique<Proxy>(std::move(messengers.each[at]), shares[at], shape_.chunk));
}

std::vector<HostPipe> PipeWire::lay_out(const std::vector<int>& peers, std::vector<PipeEntry>& table) {
  std::vector<HostPipe> pipes;
  auto* const words = static_cast<PipeWords*>(words_.get());
  auto* const passed = reinterpret_cast<Word*>(passed_.get());
  std::byte* const slots =
      slots_on_device_ ? device_slots_->get() : static_cast<std::byte*>(host_slots_->get());
  for (const int peer : peers) {
    first_entry_[static_cast<std::size_t>(peer)] = static_cast<int>(table.size());
    for (int channel = 0; channel < shape_.channels; ++channel) {
      for (const bool sends : {true, false}) {
        const std::size_t index = table.size();
        std::byte* const mine = slots + index * kPipeSlots * shape_.chunk;
        table.push_back({{words + index, mine, passed + index}, missing_words() + peer, sends});
        pipes.push_back({{peer, channel}, sends, words + index, mine, missing_words() + peer});
      }
    }
  }
  return pipes;
}

std::string PipeWire::describe() const {
  return name_ + ", " + std::to_string(shape_.channels) + " x " + std::to_string(kPipeSlots) + " slots of " +
         std::to_string(shape_.chunk >> 10) + " KiB)";
}

int PipeWire::entry_of(int peer, int channel, bool sends) const {
  return first_entry_[static_cast<std::size_t>(peer)] + channel * 2 + (sends ? 0 : 1);
}

void PipeWire::add(PipeLaunch& launch, const WireMessage& message, bool sends) const {
  for (int channel = 0; channel < shape_.channels; ++channel) {
    const Slice slice = slice_of(message.bytes, channel, shape_.channels);
    if (slice.bytes == 0) continue;
    launch.job[launch.jobs++] = {message.memory + slice.begin, slice.bytes,
                                 entry_of(message.peer, channel, sends)};
  }
}

void PipeWire::exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                        cudaStream_t stream) {
  PipeLaunch launch{};
  launch.turn = turn_;
  launch.table = reinterpret_cast<const PipeEntry*>(table_.get());
  for (const WireMessage& message : sends) add(launch, message, true);
  for (const WireMessage& message : receives) add(launch, message, false);
  check_cuda(launch_pipes(launch, stream), "launch of the messages between nodes");
  for (const auto& proxy : proxies_) proxy->wake();
}

unsigned long long PipeWire::missing(int rank) const {
  const volatile Word* const words = missing_words();
  return words[rank];
}

std::string PipeWire::failure() const {
  for (const auto& proxy : proxies_)
    if (std::string words = proxy->failure(); !words.empty()) return words;
  return "";
}

bool PipeWire::has_left(int rank) const {
  const int first = first_entry_[static_cast<std::size_t>(rank)];
  auto* const words = static_cast<PipeWords*>(words_.get());
  for (int entry = first; first >= 0 && entry < first + 2 * shape_.channels; ++entry)
    if (std::atomic_ref(words[entry].host).load() == kPipeBroken) return true;
  return false;
}

void PipeWire::finish(bool well) {
  for (const auto& proxy : proxies_) proxy->stop(well);
  for (const auto& proxy : proxies_) proxy->finish(well);
}

void PipeWire::abandon() {
  if (device_slots_) device_slots_->abandon();
}

}  // namespace tapa::device
