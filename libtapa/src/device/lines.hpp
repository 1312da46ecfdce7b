/// @file
/// Short blocks, as lines with flags in their data. Host and device.
#pragma once

#include "device/moves.hpp"
#include "device/waiting.hpp"

namespace tapa::device {

/// A channel's part of the lines of a call.
struct LineShare {
  const Tuning& tuning;
  int channel;
  Word sequence;
};

template <class Team>
TAPA_HOST_DEVICE inline Word first_line(const Team& team, int channel) {
  return static_cast<Word>(channel) * static_cast<Word>(team.lanes()) + static_cast<Word>(team.lane());
}

template <class Team, class BlockType>
TAPA_HOST_DEVICE inline void send_lines(Team& team, Line* mailbox, const BlockType& block, LineShare share) {
  const int channels = channels_of(block.send_bytes, share.tuning);
  if (share.channel >= channels) return;
  const Word lines = lines_of(block.send_bytes);
  const Word stride = static_cast<Word>(channels) * static_cast<Word>(team.lanes());
  const std::uint32_t flag = line_flag(share.sequence, block.send_bytes);
  for (Word line = first_line(team, share.channel); line < lines; line += stride) {
    team.store_line(mailbox + line, load_line_data(team, block.send, block.send_bytes, line), flag);
  }
}

template <class Team, class BlockType>
TAPA_HOST_DEVICE inline void receive_lines(Team& team, const Waiting<Team, BlockType>& waiting,
                                           const Line* mailbox, const BlockType& block, LineShare share) {
  const int channels = channels_of(block.receive_bytes, share.tuning);
  if (share.channel >= channels) return;
  const Word lines = lines_of(block.receive_bytes);
  const Word stride = static_cast<Word>(channels) * static_cast<Word>(team.lanes());
  const std::uint32_t flag = line_flag(share.sequence, block.receive_bytes);
  for (Word line = first_line(team, share.channel); line < lines; line += stride) {
    Line got{};
    const bool arrived = waiting.spin([&] {
      got = team.load_line(mailbox + line);
      return got.low_flag == flag && got.high_flag == flag;
    });
    if (!arrived) return;
    store_line_data(team, block.receive, block.receive_bytes, line, std::uint64_t{got.high} << 32 | got.low);
  }
}

}  // namespace tapa::device
