#include "device/host_wire.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "device/current_device.hpp"
#include "device/device_error.hpp"

namespace tapa::device {

namespace {

/// Thread blocks of a rank for each direction, all peers together: what fills a link of PCIe 5.
constexpr int kChannels = 32;
constexpr std::size_t kSlot = std::size_t{64} << 10;

/// Two ranks have what fills both ways of a link. More ranks share what devices may fill of the processor's
/// cache: the less lies in slots, the faster are copies.
EngineShape engine_shape_for(std::size_t peers) {
  constexpr Word kMiB = Word{1} << 20;
  if (peers < 2) return {4 * kMiB, 8, kMiB, 3 * kMiB};
  return {2 * kMiB, 2, 2 * kMiB, kMiB};
}

/// All thread blocks find place at once: senders may wait for slots that receivers empty. `multiprocessors`:
/// of the smallest device.
PipeShape shape_for(std::size_t peers, int multiprocessors) {
  const int fit = std::min(kChannels, multiprocessors / 2);
  return {std::max(fit / static_cast<int>(std::max<std::size_t>(peers, 1)), 1), kSlot};
}

/// Place of a rank among those whose devices the owner's does not reach. `group`: the first rank of each
/// rank's group, whose devices reach each other.
std::size_t place_among_peers(const std::vector<int>& group, int owner, int rank) {
  const auto others = std::count_if(group.begin(), group.begin() + rank,
                                    [&](int one) { return one != group[static_cast<std::size_t>(owner)]; });
  return static_cast<std::size_t>(others);
}

/// The first rank that is none of the peers: its group's first.
int first_of_group(const std::vector<int>& peers) {
  int first = 0;
  for (const int peer : peers) first += peer == first ? 1 : 0;
  return first;
}

}  // namespace

HostWire::HostWire(const Agreement& agreement, const std::vector<int>& peers, LocalState* state, Word timeout)
    : peers_(peers) {
  int multiprocessors = 0;
  agreement.together([&] { multiprocessors = multiprocessors_here(); });
  const std::vector<std::size_t> counts = agreement.gather(peers.size());
  const std::vector<int> sizes = agreement.gather(multiprocessors);
  shape_ = shape_for(*std::max_element(counts.begin(), counts.end()),
                     *std::min_element(sizes.begin(), sizes.end()));
  agreement.together([&] {
    const LastingMemory word(sizeof(std::uint32_t));
    if (StreamWords::work_here(static_cast<std::uint32_t*>(word.get())))
      engine_shape_ = engine_shape_for(*std::max_element(counts.begin(), counts.end()));
  });
  const std::vector<std::size_t> slots = agreement.gather(static_cast<std::size_t>(engine_shape_.slot));
  engine_shape_.slot = *std::min_element(slots.begin(), slots.end());
  map_pages(agreement, peers);
  agreement.together([&] {
    table_.emplace(agreement.size(), peers, shape_, state, timeout, [&](const PipeTable::Place& place) {
      const Ends& ends = ends_.emplace_back(ends_at(place));
      return Pipe{ends.said(), ends.heard(), ends.other_left(), nullptr, ends.slots, nullptr};
    });
    if (engine_shape_.slot != 0) make_engines(agreement, peers, state, timeout);
  });
}

void HostWire::make_engines(const Agreement& agreement, const std::vector<int>& peers, LocalState* state,
                            Word timeout) {
  std::vector<CopyEngines::End> ends;
  for (std::size_t place = 0; place < peers.size(); ++place) {
    for (const bool sends : {true, false}) {
      std::byte* const words = (sends ? out_ : in_)[place].get() + bytes_of_pipes();
      const Ends& pipe = ends_[static_cast<std::size_t>(table_->index_of(peers[place], 0, sends))];
      const int ahead = sends ? peers[place] - agreement.rank() : agreement.rank() - peers[place];
      const int distance = (ahead + agreement.size()) % agreement.size();
      ends.push_back({peers[place], distance, sends, reinterpret_cast<EngineWords*>(words),
                      words + kSharedPage, pipe.own_left(), pipe.other_left(),
                      table_->missing(peers[place])});
    }
  }
  engines_ = std::make_unique<CopyEngines>(std::move(ends), agreement.size(), engine_shape_, state, timeout);
}

std::size_t HostWire::bytes_of_pipes() const {
  const std::size_t pipe = sizeof(Words) + kPipeSlots * shape_.chunk;
  return round_up(pipe * static_cast<std::size_t>(shape_.channels), kSharedPage);
}

std::size_t HostWire::bytes_of_peer() const {
  static_assert(sizeof(EngineWords) <= kSharedPage);
  const std::size_t engines =
      engine_shape_.slot == 0 ? 0 : kSharedPage + engine_shape_.slots * engine_shape_.slot;
  return bytes_of_pipes() + engines;
}

void HostWire::map_pages(const Agreement& agreement, const std::vector<int>& peers) {
  const std::size_t each = bytes_of_peer();
  const std::vector<int> group = agreement.gather(first_of_group(peers));
  std::vector<Handle> mine;
  agreement.together([&] {
    mine.push_back(make_shared_file(std::max<std::size_t>(each * peers.size(), kSharedPage)));
    for (std::size_t place = 0; place < peers.size(); ++place) in_.emplace_back(mine[0], place * each, each);
  });
  const std::vector<Delivery> files = post_handles(agreement, std::move(mine));
  agreement.together([&] {
    for (const int peer : peers) {
      const Delivery& theirs = files[static_cast<std::size_t>(peer)];
      if (theirs.handles.empty())
        throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED, "no shared memory came from rank " +
                                                           std::to_string(agreement.name(peer)) + ": " +
                                                           theirs.missing);
      out_.emplace_back(theirs.handles[0], place_among_peers(group, peer, agreement.rank()) * each, each);
    }
  });
}

HostWire::Ends HostWire::ends_at(const PipeTable::Place& place) const {
  const std::size_t peer = place.index / static_cast<std::size_t>(2 * shape_.channels);
  std::byte* const pages = (place.sends ? out_ : in_)[peer].get();
  const auto channel = static_cast<std::size_t>(place.channel);
  auto* const words = reinterpret_cast<Words*>(pages) + channel;
  std::byte* const slots = pages + static_cast<std::size_t>(shape_.channels) * sizeof(Words);
  return {words, slots + channel * kPipeSlots * shape_.chunk, place.sends};
}

std::string HostWire::describe() const {
  return "host memory (" + std::to_string(shape_.channels) + " x " + std::to_string(kPipeSlots) +
         " slots of " + std::to_string(shape_.chunk >> 10) + " KiB" +
         (engines_ ? "; of " + std::to_string(engine_shape_.from >> 10) + " KiB and more by copy engines"
                   : "") +
         ")";
}

void HostWire::exchange(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                        cudaStream_t stream) {
  put(sends, receives, stream, stream);
}

// Engines begin at once, and not behind what ends the exchange before.
void HostWire::start(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                     cudaStream_t stream, int slot) {
  side_.follow(stream);
  put(sends, receives, stream, side_.get());
  side_.mark(slot);
}

void HostWire::put(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                   cudaStream_t from, cudaStream_t into) {
  if (!engines_) return table_->launch(sends, receives, into);
  const auto some = [this](std::span<const WireMessage> all, bool are_long) {
    std::vector<WireMessage> found;
    for (const WireMessage& message : all)
      if ((message.bytes >= engine_shape_.from) == are_long) found.push_back(message);
    return found;
  };
  table_->launch(some(sends, false), some(receives, false), into);
  engines_->exchange(some(sends, true), some(receives, true), from, into);
}

unsigned long long HostWire::missing(int rank) const {
  return table_->missed_by(rank);
}

bool HostWire::has_left(int rank) const {
  const int first = table_->first_of(rank);
  for (int index = first; first >= 0 && index < first + table_->pipes_of_peer(); ++index)
    if (std::atomic_ref(*ends_[static_cast<std::size_t>(index)].other_left()).load() != 0) return true;
  return false;
}

void HostWire::tell_failure() {
  for (const Ends& ends : ends_) std::atomic_ref(*ends.own_left()).store(1);
  if (engines_) engines_->give_up();
}

void HostWire::settle() {
  if (engines_) engines_->settle();
}

// The words of a pipe, of both its ends, lie in the receiver's pages.
void HostWire::restart() {
  for (const SharedPages& pages : in_)
    std::memset(pages.get(), 0, static_cast<std::size_t>(shape_.channels) * sizeof(Words));
  table_->restart();
  if (engines_) engines_->restart();
}

TornDown HostWire::part(bool well, std::chrono::nanoseconds limit) {
  const auto word = [](const SharedPages& pages) {
    return std::atomic_ref(reinterpret_cast<Words*>(pages.get())->teardown);
  };
  const auto say = [&](int place, Teardown teardown) {
    word(out_[static_cast<std::size_t>(place)]).store(static_cast<Word>(teardown));
  };
  struct Said {
    std::vector<Word> of;
  };
  const auto hear = [&] {
    Said said;
    for (const SharedPages& pages : in_) said.of.push_back(word(pages).load());
    return said;
  };
  TornDown parted = tear_down(-1, static_cast<int>(peers_.size()), well, limit, say, hear);
  if (parted.missing >= 0) parted.missing = peers_[static_cast<std::size_t>(parted.missing)];
  return parted;
}

void HostWire::finish(bool well) {
  if (!well) tell_failure();
}

}  // namespace tapa::device
