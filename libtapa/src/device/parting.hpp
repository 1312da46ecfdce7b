/// @file
/// How the ranks of a node part: each tells the others whether it has seen an error, and who has seen none
/// waits until it knows of all. So nobody waits for a rank that does not come to anything collective any
/// more. Knows no CUDA.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "device/region.hpp"

namespace tapa::device {

/// Whether all ranks are well. `say(peer, parting)`: writes this rank's entry at another; `hear()`: the
/// entries that the others have written here.
template <class Say, class Hear>
[[nodiscard]] bool part_from(int rank, int size, bool well, const Say& say, const Hear& hear) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) say(peer, well ? Parting::well : Parting::failed);
  }
  if (!well) return false;
  const auto longest = std::chrono::milliseconds(1);
  for (auto pause = std::chrono::microseconds(10);;
       pause = std::min<std::chrono::microseconds>(2 * pause, longest)) {
    const Partings said = hear();
    bool all = true;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const auto parting = static_cast<Parting>(said.of[peer]);
      if (parting == Parting::failed) return false;
      all = all && parting == Parting::well;
    }
    if (all) return true;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace tapa::device
