/// @file
/// What NCCL's messages carry besides data, so that nobody takes the bytes of a rank that has failed for good
/// ones. Host and device.
///
/// A token is the number of the exchange between two ranks, counted for each pair: with blocks of own sizes
/// a rank may have exchanges with one peer that another peer knows nothing of, but both ends of a pair count
/// the same.
#pragma once

#include "device/region.hpp"

namespace tapa::device {

inline constexpr int kMaxTokens = 512;
/// One exchange of a rank: an argument of fixed size, which a CUDA graph records. Tables have an entry for
/// each rank of the communicator.
struct Tokens {
  Word* mine;         ///< to send, device memory; 0 from a rank that has failed
  const Word* got;    ///< device memory
  Word* numbers;      ///< of the next exchange with each rank, from 1 on; device memory
  LocalState* state;  ///< of the rank
  LocalState* own;    ///< number of the exchange among all of this rank
  Word* begun;        ///< memory of the host: exchanges that have begun, ended
  Word* ended;
  Word* missing;  ///< memory of the host: of each rank
  int count;      ///< ranks to hear from
  std::uint16_t peers[kMaxTokens];
};

/// What one team does before the messages.
template <class Team>
TAPA_HOST_DEVICE inline void make_tokens(Team& team, const Tokens& tokens) {
  const bool failed = team.aborted(*tokens.state);
  for (int index = team.lane(); index < tokens.count; index += team.lanes()) {
    const int peer = tokens.peers[index];
    tokens.mine[peer] = failed ? 0 : tokens.numbers[peer];
  }
  if (team.lane() == 0) team.signal(tokens.begun, tokens.own->sequence);
}

/// What one team does behind them: notes which ranks' tokens are not there.
template <class Team>
TAPA_HOST_DEVICE inline void check_tokens(Team& team, const Tokens& tokens) {
  const Word exchange = tokens.own->sequence;
  const bool failed = team.any(team.aborted(*tokens.state));
  for (int index = team.lane(); index < tokens.count; index += team.lanes()) {
    const int peer = tokens.peers[index];
    const Word number = tokens.numbers[peer]++;
    if (failed || team.relaxed(tokens.got + peer) == number) continue;
    team.lost(*tokens.state, &tokens.missing[peer], exchange);
  }
  team.any(false);
  if (team.lane() != 0) return;
  team.signal(tokens.ended, exchange);
  tokens.own->sequence = exchange + 1;
}

}  // namespace tapa::device
