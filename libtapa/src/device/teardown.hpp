/// @file
/// How the ranks of a host end a communicator: each tells the others whether it has seen an error, and who
/// has seen none waits until it knows of all, or for so long. So nobody waits for a rank that does not come
/// to anything collective any more. Knows no CUDA.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "device/region.hpp"

namespace tapa::device {

/// What a rank knows when it has ended it.
struct TornDown {
  bool well = false;  ///< all ranks are
  int missing = -1;   ///< a rank that has said nothing within the time limit
};

/// `say(peer, teardown)`: writes this rank's entry at another; `hear().of`: the entries that the others have
/// written here. `rank`: this one's place among them, -1: none. `limit`: for how long they are waited for.
template <class Say, class Hear>
[[nodiscard]] TornDown tear_down(int rank, int size, bool well, std::chrono::nanoseconds limit,
                                 const Say& say, const Hear& hear) {
  const auto tell = [&](Teardown teardown) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) say(peer, teardown);
    }
  };
  tell(well ? Teardown::well : Teardown::failed);
  if (!well) return {};
  const auto longest = std::chrono::milliseconds(1);
  const auto began = std::chrono::steady_clock::now();
  for (auto pause = std::chrono::microseconds(10);;
       pause = std::min<std::chrono::microseconds>(2 * pause, longest)) {
    const bool late =
        std::chrono::steady_clock::now() - began > limit;  // before hearing: the last time counts
    const auto said = hear();
    int missing = -1;
    for (int peer = size - 1; peer >= 0; --peer) {
      if (peer == rank) continue;
      const auto teardown = static_cast<Teardown>(said.of[peer]);
      if (teardown == Teardown::failed) return {};
      if (teardown != Teardown::well) missing = peer;
    }
    if (missing < 0) return {true, -1};
    if (late) {
      tell(Teardown::failed);  // who comes after all does not wait for this rank
      return {false, missing};
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace tapa::device
