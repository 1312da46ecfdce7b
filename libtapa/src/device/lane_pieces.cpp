#include <algorithm>

#include "device/lane_plan.hpp"

namespace tapa::device {

namespace {

/// Makes the steps of one rank for strided blocks.
class Steps {
 public:
  Steps(const Partition& nodes, int rank, std::span<const std::size_t> send_bytes,
        std::span<const std::size_t> receive_bytes, std::size_t piece, int first_slot)
      : send_bytes_(send_bytes),
        receive_bytes_(receive_bytes),
        piece_(piece),
        first_slot_(static_cast<std::size_t>(first_slot)) {
    for (std::size_t peer = 0; peer < nodes.group.size(); ++peer) {
      if (nodes.group[peer] == nodes.group_of(rank)) continue;
      others_.push_back(peer);
      const std::size_t most = std::max(send_bytes[peer], receive_bytes[peer]);
      chunks_ = std::max(chunks_, (most + piece - 1) / piece);
    }
  }

  std::vector<LaneStep> make() {
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      if (chunk >= kLaneSlots) finish(chunk - kLaneSlots);
      start(chunk);
    }
    steps_.emplace_back(NodeBlocks{});
    for (std::size_t chunk = chunks_ - std::min<std::size_t>(chunks_, kLaneSlots); chunk < chunks_; ++chunk) {
      finish(chunk);
    }
    return std::move(steps_);
  }

 private:
  [[nodiscard]] std::size_t slot_of(std::size_t chunk) const { return (first_slot_ + chunk) % kLaneSlots; }

  /// The pieces of all blocks of one side in a chunk.
  [[nodiscard]] PieceCopy pieces(std::size_t chunk, bool sends) const {
    PieceCopy copy{static_cast<int>(slot_of(chunk)), sends, {}};
    const std::span<const std::size_t> bytes = sends ? send_bytes_ : receive_bytes_;
    const Area area = sends ? Area::pieces_out : Area::pieces_in;
    const std::size_t begin = chunk * piece_;
    for (std::size_t index = 0; index < others_.size(); ++index) {
      const std::size_t peer = others_[index];
      if (bytes[peer] <= begin) continue;
      const std::size_t place = slot_of(chunk) * others_.size() + index;
      copy.pieces.push_back(
          {static_cast<int>(peer), begin, std::min(piece_, bytes[peer] - begin), {area, place * piece_}});
    }
    return copy;
  }
  static std::vector<Message> messages(const PieceCopy& copy) {
    std::vector<Message> made;
    for (const PieceCopy::Piece& piece : copy.pieces)
      made.push_back({piece.peer, piece.together, piece.bytes});
    return made;
  }

  void start(std::size_t chunk) {
    PieceCopy out = pieces(chunk, true);
    Start start{static_cast<int>(slot_of(chunk)), messages(out), messages(pieces(chunk, false))};
    if (!out.pieces.empty()) steps_.emplace_back(std::move(out));
    steps_.emplace_back(std::move(start));
  }
  void finish(std::size_t chunk) {
    steps_.emplace_back(Wait{static_cast<int>(slot_of(chunk))});
    PieceCopy in = pieces(chunk, false);
    if (!in.pieces.empty()) steps_.emplace_back(std::move(in));
  }

  std::span<const std::size_t> send_bytes_;
  std::span<const std::size_t> receive_bytes_;
  std::size_t piece_, first_slot_;
  std::vector<std::size_t> others_;  ///< ranks of other nodes
  std::size_t chunks_ = 0;
  std::vector<LaneStep> steps_;
};

}  // namespace

std::size_t piece_bytes(int ranks, std::size_t chunk) {
  constexpr std::size_t kGrain = 512;
  return std::max(kGrain, chunk / static_cast<std::size_t>(ranks) / kGrain * kGrain);
}

std::vector<LaneStep> strided_steps(const Partition& nodes, int rank, std::span<const std::size_t> send_bytes,
                                    std::span<const std::size_t> receive_bytes, std::size_t piece,
                                    int first_slot) {
  return Steps(nodes, rank, send_bytes, receive_bytes, piece, first_slot).make();
}

}  // namespace tapa::device
