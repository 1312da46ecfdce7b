#include "plan/cost.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <stdexcept>
#include <tuple>

namespace tapa {

namespace {

// Where nothing is known: shared memory and a 100 Gbit/s network with user-space access, or kernel TCP.
constexpr LevelRates kMemory = {0.5e-6, 6e9, 0.3e-6, 1};
constexpr LevelRates kFabric = {2e-6, 12.5e9, 0.5e-6, 1};
constexpr LevelRates kTcp = {30e-6, 1.25e8, 4e-6, 1};
// Over TCP each message carries about this many bytes of Ethernet, IP, TCP and MPI headers.
constexpr double kTcpHeader = 100;
// Measured over TCP at 100 Mbit/s, 4 nodes x 4 ranks, 4-16 KiB: everybody to everybody at once against
// pairwise order.
constexpr double kTcpIncast = 0.06;

/// Replays a plan against clocks: one for each rank's CPU and one for each NIC and direction.
class Clock {
 public:
  Clock(const Plan& plan, const Topology& topology, const Rates& rates)
      : plan_(plan),
        topology_(topology),
        rates_(rates),
        cpu_(plan.of_rank.size()),
        copy_(plan.of_rank.size()) {
    cost_.level_seconds.resize(topology.levels.size());
    cost_.level_bytes.resize(topology.levels.size());
    cost_.level_messages.resize(topology.levels.size());
    cost_.nic_bytes.resize(topology.nics.size());
    out_.resize(topology.nics.size());
    in_.resize(topology.nics.size());
    slow_down_ = std::max(1.0, 1.0 / rates.cores_per_rank);
  }

  Cost run() {
    for (const RankPlan& rank : plan_.of_rank) {
      open_.emplace_back(rank.steps.size());
      successors_.emplace_back(rank.steps.size());
      for (std::uint32_t i = 0; i < rank.steps.size(); ++i) {
        open_.back()[i] = rank.steps[i].deps.count;
        for (std::uint32_t dep : rank.deps_of(rank.steps[i])) successors_.back()[dep].push_back(i);
      }
    }
    for (std::size_t r = 0; r < plan_.of_rank.size(); ++r) {
      for (std::uint32_t i = 0; i < open_[r].size(); ++i) {
        if (open_[r][i] == 0) events_.push({0.0, sequence_++, r, i, false});
      }
    }
    while (!events_.empty()) {
      const Event e = events_.top();
      events_.pop();
      if (e.complete) {
        complete(e);
      } else {
        begin(e);
      }
    }
    cost_.copy_seconds = *std::max_element(copy_.begin(), copy_.end());
    return std::move(cost_);
  }

 private:
  struct Event {
    double at;
    std::uint64_t sequence;  // ties in the order of creation: deterministic
    std::size_t rank;
    std::uint32_t step;
    bool complete;
    bool operator>(const Event& o) const { return std::tie(at, sequence) > std::tie(o.at, o.sequence); }
  };
  struct Arrival {
    double at = -1;          // when the message is in the receiver's memory, -1: not sent yet
    std::uint32_t step = 0;  // the receive that waits for it
    bool posted = false;
  };

  double use_cpu(std::size_t rank, double from, double seconds) {
    cpu_[rank] = std::max(cpu_[rank], from) + seconds * slow_down_;
    return cpu_[rank];
  }

  double copy_time(std::size_t rank, Range segments, std::size_t bytes) {
    const double seconds = segments.count > 1 ? static_cast<double>(bytes) / rates_.copy : 0;
    copy_[rank] += seconds;
    return seconds;
  }

  void begin(const Event& e) {
    const Step& step = plan_.of_rank[e.rank].steps[e.step];
    if (step.kind == StepKind::copy) {
      const double seconds = static_cast<double>(step.bytes) / rates_.copy;
      copy_[e.rank] += seconds;
      events_.push({use_cpu(e.rank, e.at, seconds), sequence_++, e.rank, e.step, true});
      return;
    }
    const int level = topology_.level_of(static_cast<int>(e.rank), step.peer);
    const double post = rates_.levels[static_cast<std::size_t>(level)].message + rates_.step;
    if (step.kind == StepKind::send) {
      send(e, step, level, post);
      return;
    }
    Arrival& a = arrivals_[{step.peer, static_cast<int>(e.rank), step.channel}];
    a.step = e.step;
    a.posted = true;
    if (a.at >= 0) events_.push({std::max(a.at, e.at), sequence_++, e.rank, e.step, true});
  }

  void send(const Event& e, const Step& step, int level, double post) {
    const auto l = static_cast<std::size_t>(level);
    const LevelRates& r = rates_.levels[l];
    const auto bytes = static_cast<double>(step.bytes);
    const double ready = use_cpu(e.rank, e.at, post + copy_time(e.rank, step.from, step.bytes));
    double wire = bytes / r.bandwidth;
    double done = ready + wire;
    if (level >= topology_.nic_level && !topology_.rails.empty())
      done = through_nics(e.rank, step, ready, wire);
    ++cost_.level_messages[l];
    cost_.level_bytes[l] += step.bytes;
    cost_.level_seconds[l] = std::max(cost_.level_seconds[l], done + r.latency - ready);
    events_.push({done, sequence_++, e.rank, e.step, true});
    Arrival& a = arrivals_[{static_cast<int>(e.rank), step.peer, step.channel}];
    a.at = done + r.latency;
    if (a.posted) events_.push({a.at, sequence_++, static_cast<std::size_t>(step.peer), a.step, true});
  }

  /// A message occupies its sender's NIC and its receiver's; both serve one message after the other.
  double through_nics(std::size_t rank, const Step& step, double ready, double wire) {
    const auto& mine = topology_.rails[rank];
    const auto& theirs = topology_.rails[static_cast<std::size_t>(step.peer)];
    if (mine.empty() || theirs.empty()) return ready + wire;
    const auto from = static_cast<std::size_t>(mine[static_cast<std::size_t>(step.peer) % mine.size()]);
    const auto to = static_cast<std::size_t>(theirs[rank % theirs.size()]);
    const auto busy = [&](std::size_t nic) {
      const double bandwidth = topology_.nics[nic].bandwidth.value_or(rates_.nic_bandwidth);
      return rates_.nic_message + (bandwidth > 0 ? static_cast<double>(step.bytes) / bandwidth : 0);
    };
    cost_.nic_bytes[from] += step.bytes;
    const double start = std::max(ready, out_[from]);
    out_[from] = start + busy(from);
    in_[to] = std::max(in_[to], start) + busy(to);
    return std::max({out_[from], in_[to], ready + wire});
  }

  void complete(const Event& e) {
    const RankPlan& rank = plan_.of_rank[e.rank];
    const Step& step = rank.steps[e.step];
    double at = e.at;
    if (step.kind == StepKind::recv) {
      const int level = topology_.level_of(static_cast<int>(e.rank), step.peer);
      at = use_cpu(e.rank, at,
                   rates_.levels[static_cast<std::size_t>(level)].message + rates_.step +
                       copy_time(e.rank, step.to, step.bytes));
    }
    cost_.seconds = std::max(cost_.seconds, at);
    for (std::uint32_t next : successors_[e.rank][e.step]) {
      if (--open_[e.rank][next] == 0) events_.push({at, sequence_++, e.rank, next, false});
    }
  }

  const Plan& plan_;
  const Topology& topology_;
  const Rates& rates_;
  std::vector<double> cpu_;   // when each rank's CPU is free
  std::vector<double> copy_;  // seconds each rank spends copying
  std::vector<double> out_, in_;
  double slow_down_ = 1;
  std::vector<std::vector<std::uint32_t>> open_;
  std::vector<std::vector<std::vector<std::uint32_t>>> successors_;
  std::map<std::tuple<int, int, int>, Arrival> arrivals_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
  Cost cost_;
};

}  // namespace

bool over_tcp(const Topology& topology) {
  return std::any_of(topology.nics.begin(), topology.nics.end(), [](const Nic& nic) {
    return nic.provider.find("tcp") != std::string::npos || nic.provider.find("sockets") != std::string::npos;
  });
}

Rates rates_from(const Topology& topology) {
  Rates rates;
  const bool tcp = over_tcp(topology);
  for (std::size_t l = 0; l < topology.levels.size(); ++l) {
    const bool nic = static_cast<int>(l) >= topology.nic_level;
    LevelRates level = !nic ? kMemory : tcp ? kTcp : kFabric;
    const LinkCost& link = topology.levels[l].link;
    level.latency = link.latency.value_or(level.latency);
    level.bandwidth = link.bandwidth.value_or(level.bandwidth);
    level.message = link.message.value_or(level.message);
    level.links = link.links.value_or(1);
    rates.levels.push_back(level);
  }
  double slowest = 0;
  for (const Nic& nic : topology.nics) {
    if (nic.bandwidth) slowest = slowest == 0 ? *nic.bandwidth : std::min(slowest, *nic.bandwidth);
    rates.nic_message = std::max(rates.nic_message, nic.message.value_or(0));
  }
  rates.nic_bandwidth = slowest;
  if (tcp) {
    rates.incast = kTcpIncast;
    if (slowest > 0) rates.nic_message = std::max(rates.nic_message, kTcpHeader / slowest);
  }
  // A pair cannot be faster than the NIC it goes through.
  for (std::size_t l = 0; slowest > 0 && l < rates.levels.size(); ++l) {
    if (static_cast<int>(l) >= topology.nic_level)
      rates.levels[l].bandwidth = std::min(rates.levels[l].bandwidth, slowest);
  }
  rates.cores_per_rank = topology.cores_per_rank.value_or(1.0);
  rates.copy = topology.copy.value_or(rates.copy);
  return rates;
}

Cost cost_of(const Plan& plan, const Topology& topology, const Rates& rates) {
  if (plan.of_rank.size() != static_cast<std::size_t>(topology.ranks)) {
    throw std::invalid_argument("plan has " + std::to_string(plan.of_rank.size()) + " ranks, topology " +
                                std::to_string(topology.ranks));
  }
  return Clock(plan, topology, rates).run();
}

}  // namespace tapa
