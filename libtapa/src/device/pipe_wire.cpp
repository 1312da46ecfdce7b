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

}  // namespace

PipeShape pipe_shape(int ranks, int most) {
  const int channels = std::clamp(2 * most / ranks, 1, most);
  const std::size_t slots = PipeTable::count(static_cast<std::size_t>(ranks), channels) * kPipeSlots;
  const std::size_t share = kSlotBudget / slots / kGrain * kGrain;
  const std::size_t chunk = std::clamp(share, kShortestSlot, kLongestSlot);
  return {channels, chunk};
}

PipeWire::PipeWire(int ranks, const std::vector<int>& peers, PipeMessengers messengers,
                   const PipeShape& shape, bool slots_on_device, LocalState* state, Word timeout)
    : shape_(shape), words_(PipeTable::count(peers.size(), shape_.channels) * sizeof(PipeWords)) {
  const std::size_t bytes = PipeTable::count(peers.size(), shape_.channels) * kPipeSlots * shape_.chunk;
  if (slots_on_device) {
    device_slots_.emplace(bytes);
  } else {
    host_slots_.emplace(bytes);
  }
  table_.emplace(ranks, peers, shape_, state, timeout, [&](const PipeTable::Place& place) {
    return pipe_to_host(words()[place.index], slots(place.index), nullptr);
  });
  start(peers, std::move(messengers));
}

std::byte* PipeWire::slots(std::size_t index) const {
  std::byte* const all = device_slots_ ? device_slots_->get() : static_cast<std::byte*>(host_slots_->get());
  return all + index * kPipeSlots * shape_.chunk;
}

void PipeWire::start(const std::vector<int>& peers, PipeMessengers messengers) {
  name_ = messengers.name + messengers.each.front()->describe();
  const std::size_t count = messengers.each.size();
  std::vector<std::vector<HostPipe>> shares(count);
  for (const int peer : peers) {
    for (int channel = 0; channel < shape_.channels; ++channel) {
      for (const bool sends : {true, false}) {
        const auto index = static_cast<std::size_t>(table_->index_of(peer, channel, sends));
        shares[static_cast<std::size_t>(channel) % count].push_back(
            {{peer, channel}, sends, words() + index, slots(index), table_->missing(peer)});
      }
    }
  }
  for (std::size_t at = 0; at < count; ++at)
    proxies_.push_back(std::make_unique<Proxy>(std::move(messengers.each[at]), shares[at], shape_.chunk));
}

std::string PipeWire::describe() const {
  return name_ + ", " + std::to_string(shape_.channels) + " x " + std::to_string(kPipeSlots) + " slots of " +
         std::to_string(shape_.chunk >> 10) + " KiB)";
}

void PipeWire::exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                        cudaStream_t stream) {
  table_->launch(sends, receives, stream);
  for (const auto& proxy : proxies_) proxy->wake();
}

unsigned long long PipeWire::missing(int rank) const {
  return table_->missed_by(rank);
}

std::string PipeWire::failure() const {
  for (const auto& proxy : proxies_)
    if (std::string words = proxy->failure(); !words.empty()) return words;
  return "";
}

bool PipeWire::has_left(int rank) const {
  const int first = table_->first_of(rank);
  for (int index = first; first >= 0 && index < first + table_->pipes_of_peer(); ++index)
    if (std::atomic_ref(words()[index].host).load() == kPipeBroken) return true;
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
