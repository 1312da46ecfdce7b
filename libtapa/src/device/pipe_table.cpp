#include "device/pipe_table.hpp"

#include <cstring>
#include <string>

#include "device/device_error.hpp"

namespace tapa::device {

void PipeTable::check_peers(std::size_t peers) {
  if (peers <= kMaxPeers) return;
  throw DeviceError(TAPA_DEVICE_ERR_UNSUPPORTED,
                    std::to_string(peers) + " ranks are on other nodes, expected at most " +
                        std::to_string(kMaxPeers) + " for wires of pipes; the wire nccl has no such limit");
}

PipeTable::PipeTable(int ranks, const std::vector<int>& peers, const PipeShape& shape, LocalState* state,
                     Word timeout, const std::function<Pipe(const Place&)>& pipe_at)
    : shape_(shape),
      first_(static_cast<std::size_t>(ranks), -1),
      pipes_(count(peers.size(), shape.channels)),
      missing_(static_cast<std::size_t>(ranks) * sizeof(Word)),
      own_(sizeof(LocalState)),
      passed_(pipes_ * sizeof(Word)),
      table_(pipes_ * sizeof(PipeEntry)) {
  check_peers(peers.size());
  turn_ = {shape_.chunk, timeout, state, reinterpret_cast<LocalState*>(own_.get())};
  std::vector<PipeEntry> table;
  for (const int peer : peers) {
    first_[static_cast<std::size_t>(peer)] = static_cast<int>(table.size());
    for (int channel = 0; channel < shape_.channels; ++channel) {
      for (const bool sends : {true, false}) {
        Pipe pipe = pipe_at({table.size(), peer, channel, sends});
        pipe.passed = reinterpret_cast<Word*>(passed_.get()) + table.size();
        table.push_back({pipe, missing(peer), sends});
      }
    }
  }
  PrivateStream().copy(table_.get(), table.data(), table.size() * sizeof(PipeEntry));
  restart();
}

void PipeTable::restart() {
  PrivateStream stream;
  stream.clear(passed_.get(), pipes_ * sizeof(Word));
  stream.clear(own_.get(), sizeof(LocalState));
  const Word first = 1;
  stream.copy(&turn_.own->sequence, &first, sizeof(first));
  std::memset(missing_.get(), 0, first_.size() * sizeof(Word));
}

void PipeTable::add(PipeLaunch& launch, const WireMessage& message, bool sends) const {
  for (int channel = 0; channel < shape_.channels; ++channel) {
    const Slice slice = slice_of(message.bytes, channel, shape_.channels);
    if (slice.bytes == 0) continue;
    launch.job[launch.jobs++] = {message.memory + slice.begin, slice.bytes,
                                 index_of(message.peer, channel, sends)};
  }
}

void PipeTable::launch(std::span<const WireMessage> sends, std::span<const WireMessage> receives,
                       cudaStream_t stream) const {
  PipeLaunch launch{};
  launch.turn = turn_;
  launch.table = reinterpret_cast<const PipeEntry*>(table_.get());
  for (const WireMessage& message : sends) add(launch, message, true);
  for (const WireMessage& message : receives) add(launch, message, false);
  check_cuda(launch_pipes(launch, stream), "launch of the messages between nodes");
}

}  // namespace tapa::device
