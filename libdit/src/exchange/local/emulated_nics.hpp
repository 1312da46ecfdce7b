/// Emulation of slow NICs: when a message that leaves a node would have arrived.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace dit {

/// One NIC for each node, with a rate for each direction. A message occupies its sender's egress and its
/// receiver's ingress for bytes/rate; each of them is busy as long as it has bytes to move (it never waits
/// for the other), and the message is there when both have moved it.
class EmulatedNics {
 public:
  using Clock = std::chrono::steady_clock;

  /// No rate (0): messages take no time.
  EmulatedNics(int nodes, double bytes_per_second)
      : bytes_per_second_(bytes_per_second),
        egress_free_(static_cast<std::size_t>(nodes)),
        ingress_free_(static_cast<std::size_t>(nodes)) {}

  /// Books a message that is ready at `now`; when it has arrived.
  Clock::time_point send(int from_node, int to_node, std::size_t bytes, Clock::time_point now);

 private:
  double bytes_per_second_;
  std::vector<Clock::time_point> egress_free_, ingress_free_;
};

}  // namespace dit
