#include "plan/rank_order.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace tapa {

std::vector<int> nodes_in_order(RankOrder order, std::span<const int> given) {
  std::vector<int> result(given.begin(), given.end());
  if (order == RankOrder::given || given.empty()) return result;
  std::ranges::sort(result);
  if (order == RankOrder::consecutive) return result;
  std::vector<int> room(static_cast<std::size_t>(result.back()) + 1);
  for (const int node : given) ++room[static_cast<std::size_t>(node)];
  std::size_t next = 0;
  for (int& node : result) {
    while (room[next] == 0) next = (next + 1) % room.size();
    node = static_cast<int>(next);
    --room[next];
    next = (next + 1) % room.size();
  }
  return result;
}

void add_node_bytes(std::span<const int> node, int rank, std::span<const double> sent, std::span<double> out,
                    std::span<double> in) {
  const int own = node[static_cast<std::size_t>(rank)];
  for (std::size_t peer = 0; peer < sent.size(); ++peer) {
    if (node[peer] == own) continue;
    out[static_cast<std::size_t>(own)] += sent[peer];
    in[static_cast<std::size_t>(node[peer])] += sent[peer];
  }
}

NicLoad busiest(const Topology& topology, double nic_rate, std::span<const double> out,
                std::span<const double> in) {
  constexpr double fast = 50e9;  // bytes per second: what such a NIC would save, any would
  if (nic_rate <= 0) nic_rate = fast;
  std::vector<double> rates(out.size());
  for (const Nic& nic : topology.nics)
    rates[static_cast<std::size_t>(nic.node)] += nic.bandwidth.value_or(nic_rate);
  NicLoad most;
  for (std::size_t n = 0; n < out.size(); ++n) {
    const double bytes = std::max(out[n], in[n]);
    const double seconds = bytes / (rates[n] > 0 ? rates[n] : nic_rate);
    if (seconds > most.seconds) most = {bytes, seconds};
  }
  return most;
}

std::optional<OrderAdvice> advise(std::span<const NicLoad, kRankOrders> loads, double run_seconds) {
  const auto best = std::ranges::min_element(loads, {}, &NicLoad::seconds);
  const OrderAdvice advice{static_cast<RankOrder>(best - loads.begin()), loads.front(), *best};
  const bool real = advice.then.seconds <= 0.8 * advice.now.seconds &&
                    advice.now.seconds - advice.then.seconds >= 0.01 * run_seconds;
  return real && advice.order != RankOrder::given ? std::optional(advice) : std::nullopt;
}

LaunchOptions launch_options(const OrderAdvice& advice) {
  if (advice.order == RankOrder::alternating) return {"--map-by node", "-ppn 1", "--distribution=cyclic"};
  if (advice.ranks_per_node == 0) return {"--map-by slot", "", "--distribution=block"};
  const std::string each = std::to_string(advice.ranks_per_node);
  return {"--map-by ppr:" + each + ":node", "-ppn " + each,
          "--ntasks-per-node=" + each + " --distribution=block"};
}

int ranks_per_node(std::span<const int> node) {
  std::map<int, int> ranks;
  for (const int n : node) ++ranks[n];
  const bool even =
      std::ranges::all_of(ranks, [&](const auto& r) { return r.second == ranks.begin()->second; });
  return even && !ranks.empty() ? ranks.begin()->second : 0;
}

}  // namespace tapa
