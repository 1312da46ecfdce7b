#include "exchange/local/emulated_nics.hpp"

#include <algorithm>

namespace dit {

EmulatedNics::Clock::time_point EmulatedNics::send(int from_node, int to_node, std::size_t bytes,
                                                   Clock::time_point now) {
  if (bytes_per_second_ <= 0 || from_node == to_node || bytes == 0) return now;
  const auto duration = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / bytes_per_second_));
  Clock::time_point& egress = egress_free_[static_cast<std::size_t>(from_node)];
  Clock::time_point& ingress = ingress_free_[static_cast<std::size_t>(to_node)];
  egress = std::max(egress, now) + duration;
  ingress = std::max(ingress, now) + duration;
  return std::max(egress, ingress);
}

}  // namespace dit
