// The platform library: builds the simulated machine from libtapa's own topology. Loaded by the simulator.
//
// Every rank is a host. Inside a node a message goes out through its rank's port of the level that joins it
// to its peer and in through the peer's; between nodes out through the NIC that the topology binds the rank
// to and in through the peer's. Latencies are set by callback, because the simulator shares a link among
// flows by the inverse of their nominal latencies, which therefore are all alike.
#include <smpi/smpi.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <simgrid/kernel/resource/NetworkModelIntf.hpp>
#include <simgrid/s4u.hpp>
#include <unordered_map>

#include "job.hpp"
#include "rails.hpp"

namespace sg4 = simgrid::s4u;

namespace tapa::sim {

namespace {

constexpr double kNominalLatency = 1e-6;
constexpr double kFlops = 1e9;        // a host's speed; time is charged in seconds, so any will do
constexpr double kNoBound = 1e15;     // bytes per second
constexpr std::size_t kControl = 64;  // bytes up to which messages always carry data

World& world() {
  static World the_world;
  return the_world;
}

using Hop = sg4::LinkInRoute;

/// A link of one direction.
class Builder {
 public:
  explicit Builder(World& w) : w_(w), t_(w.job.topology) {}

  std::unordered_map<const sg4::Host*, int> build() {
    root_ = sg4::create_star_zone("machine");
    for (int r = 0; r < t_.ranks; ++r) {
      const int node = t_.node_of(r);
      if (static_cast<std::size_t>(node) >= members_.size())
        members_.resize(static_cast<std::size_t>(node) + 1);
      members_[static_cast<std::size_t>(node)].push_back(r);
    }
    make_nics();
    for (const std::vector<int>& ranks : members_) make_node(ranks);
    for (auto& [key, group] : groups_) group.zone->seal();
    root_->seal();
    return std::move(rank_of_);
  }

 private:
  struct Group {
    sg4::NetZone* zone = nullptr;
    simgrid::kernel::routing::NetPoint* gateway = nullptr;
  };

  sg4::Link* link(sg4::NetZone* zone, const std::string& name, double bandwidth, double latency) {
    return zone->create_link(name, bandwidth)->set_latency(latency)->seal();
  }

  /// A rank's rails are one link of all their bandwidth, over which its messages are spread; ranks with the
  /// same rails share it.
  void make_rails() {
    for (const std::vector<int>& nics : rails_in_use(t_)) {
      rail_of_.push_back(rails_.emplace(nics, rails_.size()).first->second);
      ranks_on_.resize(rails_.size());
      ++ranks_on_[rail_of_.back()];
    }
  }

  void make_nics() {
    make_rails();
    out_.resize(rails_.size());
    in_.resize(rails_.size());
    for (const auto& [nics, rail] : rails_) {
      if (nics.empty()) continue;
      double bandwidth = 0;
      for (const int nic : nics) bandwidth += nic_bandwidth(t_.nics[static_cast<std::size_t>(nic)]);
      const std::string name = "rail" + std::to_string(rail);
      out_[rail] = link(root_, name + "out", bandwidth, kNominalLatency / 2);
      in_[rail] = incoming(name + "in", bandwidth, ranks_on_[rail]);
    }
  }

  double nic_bandwidth(const Nic& nic) const {
    const double bandwidth = nic.bandwidth.value_or(w_.rates.nic_bandwidth);
    return bandwidth > 0 ? bandwidth : 12.5e9;
  }

  /// While more messages come in than ranks are served, some wait for others' losses to be repaired.
  sg4::Link* incoming(const std::string& name, double bandwidth, int ranks) {
    const double incast = w_.job.parameters.incast > 0 ? w_.job.parameters.incast : w_.rates.incast;
    auto* const in = root_->create_link(name, bandwidth)->set_latency(kNominalLatency / 2);
    if (incast > 0) {
      in->set_sharing_policy(sg4::Link::SharingPolicy::NONLINEAR, [=](double capacity, int messages) {
        return messages > ranks ? capacity / (1 + incast) : capacity;
      });
    }
    return in->seal();
  }

  /// Links of a group of nodes to the rest of the machine.
  struct Uplink {
    sg4::Link* up = nullptr;
    sg4::Link* down = nullptr;
  };

  /// The zone that a node hangs in: that of the innermost group with an uplink of its own, else the root.
  sg4::NetZone* parent_of(int rank) {
    sg4::NetZone* parent = root_;
    for (std::size_t l = t_.levels.size(); l-- > static_cast<std::size_t>(t_.nic_level);) {
      const std::optional<double> taper = t_.levels[l].link.taper;
      if (!taper || t_.levels[l].groups < 2) continue;
      const int g = t_.levels[l].group[static_cast<std::size_t>(rank)];
      Group& group = groups_[{l, g}];
      if (group.zone == nullptr) group = make_group(parent, l, g, *taper);
      parent = group.zone;
    }
    return parent;
  }

  Uplink make_uplink(sg4::NetZone* zone, std::size_t level, int number, double taper) {
    double bandwidth = 0;
    for (const Nic& nic : t_.nics) {
      const int rank = members_[static_cast<std::size_t>(nic.node)].front();
      if (t_.levels[level].group[static_cast<std::size_t>(rank)] == number)
        bandwidth += nic.bandwidth.value_or(w_.rates.nic_bandwidth);
    }
    const std::string name = t_.levels[level].name + std::to_string(number);
    return {link(zone, name + "up", bandwidth / taper, 0), link(zone, name + "down", bandwidth / taper, 0)};
  }

  Group make_group(sg4::NetZone* parent, std::size_t level, int number, double taper) {
    const std::string name = t_.levels[level].name + std::to_string(number);
    Group group;
    group.zone = sg4::create_star_zone(name);
    group.zone->set_parent(parent);
    // In a zone of its own: routes to a router beside zones lose the links inside those.
    sg4::NetZone* const gate = sg4::create_full_zone(name + "gatezone");
    gate->set_parent(group.zone);
    group.gateway = gate->create_router(name + "gate");
    gate->seal();
    group.zone->add_route(gate->get_netpoint(), nullptr, group.gateway, nullptr, std::vector<Hop>{}, true);
    const Uplink uplink = make_uplink(parent, level, number, taper);
    parent->add_route(group.zone->get_netpoint(), nullptr, group.gateway, nullptr, {Hop(uplink.up)}, false);
    parent->add_route(nullptr, group.zone->get_netpoint(), nullptr, group.gateway, {Hop(uplink.down)}, false);
    return group;
  }

  void make_node(const std::vector<int>& ranks) {
    sg4::NetZone* const parent = parent_of(ranks.front());
    const std::string name = "node" + std::to_string(t_.node_of(ranks.front()));
    sg4::NetZone* const node = sg4::create_full_zone(name);
    node->set_parent(parent);
    auto* const gate = node->create_router(name + "gate");
    std::vector<sg4::Host*> hosts;
    for (const int r : ranks) {
      hosts.push_back(node->create_host("r" + std::to_string(r), kFlops));
      rank_of_[hosts.back()] = r;
      hosts.back()->seal();
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      auto* const here = hosts[i]->get_netpoint();
      const std::size_t rail = rail_of_[static_cast<std::size_t>(ranks[i])];
      if (out_[rail] != nullptr) {
        node->add_route(here, gate, nullptr, nullptr, {Hop(out_[rail])}, false);
        node->add_route(gate, here, nullptr, nullptr, {Hop(in_[rail])}, false);
      } else {
        const int fabric = std::min(t_.nic_level, static_cast<int>(t_.levels.size()) - 1);
        node->add_route(here, gate, nullptr, nullptr, {Hop(port(node, fabric, ranks[i], -1, "out"))}, false);
        node->add_route(gate, here, nullptr, nullptr, {Hop(port(node, fabric, ranks[i], -1, "in"))}, false);
      }
      for (std::size_t j = 0; j < ranks.size(); ++j) add_inside(node, ranks[i], ranks[j], here, hosts[j]);
    }
    node->seal();
    parent->add_route(node->get_netpoint(), nullptr, gate, nullptr, std::vector<Hop>{}, true);
  }

  void add_inside(sg4::NetZone* node, int a, int b, simgrid::kernel::routing::NetPoint* here,
                  const sg4::Host* there) {
    std::vector<Hop> hops;
    if (a == b) {
      hops.emplace_back(link(node, "self" + std::to_string(a), w_.rates.copy, kNominalLatency));
    } else {
      const int level = t_.level_of(a, b);
      hops.emplace_back(port(node, level, a, b, "out"));
      hops.emplace_back(port(node, level, b, a, "in"));
    }
    node->add_route(here, there->get_netpoint(), nullptr, nullptr, hops, false);
  }

  /// The link by which `rank` reaches `peer` at a level: its only one, or the one to the peer's group.
  sg4::Link* port(sg4::NetZone* node, int level, int rank, int peer, const std::string& direction) {
    const auto l = static_cast<std::size_t>(level);
    int to = 0;
    if (peer >= 0 && w_.rates.levels[l].links > 1)
      to = level == 0 ? peer : t_.levels[l - 1].group[static_cast<std::size_t>(peer)];
    const std::string name =
        "port" + std::to_string(level) + "r" + std::to_string(rank) + "to" + std::to_string(to) + direction;
    sg4::Link*& found = ports_[name];
    // Where cores move the bytes they are paid as the cores' time, see message_seconds.
    const double bandwidth = moved_by_cores(t_, level) ? kNoBound : w_.rates.levels[l].bandwidth;
    if (found == nullptr) found = link(node, name, bandwidth, kNominalLatency / 2);
    return found;
  }

  World& w_;
  const Topology& t_;
  sg4::NetZone* root_ = nullptr;
  std::vector<std::vector<int>> members_;  // of each node
  std::map<std::pair<std::size_t, int>, Group> groups_;
  std::map<std::vector<int>, std::size_t> rails_;  // sets of NICs that ranks use
  std::vector<std::size_t> rail_of_;               // of each rank
  std::vector<int> ranks_on_;                      // of each rail
  std::vector<sg4::Link*> out_, in_;               // of each rail
  std::map<std::string, sg4::Link*> ports_;
  std::unordered_map<const sg4::Host*, int> rank_of_;
};

/// What the simulator's defaults would add to the described machine; see README.md.
void configure(const sg4::Engine& engine, const World& w) {
  const std::string eager = std::to_string(w.eager_sends ? w.job.parameters.eager + 1 : 0);
  const std::vector<std::string> settings = {"network/crosstraffic:0",
                                             "network/weight-S:0",
                                             "network/TCP-gamma:1e15",
                                             "surf/precision:1e-13",
                                             "smpi/simulate-computation:no",
                                             "smpi/test:0",
                                             "smpi/iprobe:0",
                                             "smpi/wtime:0",
                                             "smpi/barrier:ompi_bruck",
                                             "smpi/async-small-thresh:" + eager,
                                             "smpi/send-is-detached-thresh:" + eager};
  for (const std::string& setting : settings) sg4::Engine::set_config(setting);
  (void)engine;
}

void copy_or_skip(smx_activity_t activity, void* from, std::size_t bytes) {
  const bool detached = world().eager_sends && bytes <= world().job.parameters.eager;
  if (!world().has_data && bytes > kControl && !detached) return;
  smpi_comm_copy_buffer_callback(reinterpret_cast<simgrid::kernel::activity::CommImpl*>(activity), from,
                                 bytes);
}

/// Latency, bandwidth and CPU costs of messages by the level that joins their ranks.
class Costs {
 public:
  explicit Costs(std::unordered_map<const sg4::Host*, int> rank_of)
      : rank_of_(std::move(rank_of)), rails_(rails_in_use(world().job.topology)) {}

  [[nodiscard]] double latency_factor(double size, const sg4::Host* from, const sg4::Host* to) const {
    World& w = world();
    const int a = rank_of_.at(from);
    const int b = rank_of_.at(to);
    if (a == b) return 1e-3;
    const int level = w.job.topology.level_of(a, b);
    const double trips =
        static_cast<std::size_t>(size) > w.job.parameters.eager + kEnvelope ? w.job.parameters.rendezvous : 1;
    return trips * w.rates.levels[static_cast<std::size_t>(level)].latency / kNominalLatency;
  }

  /// A NIC is busy with a message for its bytes and `nic_message` seconds.
  [[nodiscard]] double bandwidth_factor(double size, const sg4::Host* from, const sg4::Host* to) const {
    World& w = world();
    const Topology& t = w.job.topology;
    const int a = rank_of_.at(from);
    const std::vector<int>& rails = rails_[static_cast<std::size_t>(a)];
    if (t.level_of(a, rank_of_.at(to)) < t.nic_level || rails.empty()) return 1;
    const auto count = static_cast<double>(rails.size());
    for (const int nic : rails) w.nic_bytes[static_cast<std::size_t>(nic)] += (size - kEnvelope) / count;
    const Nic& first = t.nics[static_cast<std::size_t>(rails.front())];
    return size / (size + first.message.value_or(0) * first.bandwidth.value_or(w.rates.nic_bandwidth));
  }

  [[nodiscard]] double cpu(const sg4::Host* from, const sg4::Host* to, std::size_t size, bool sends) const {
    const World& w = world();
    // Requests inside the simulator's own collectives may name no host.
    const auto a = rank_of_.find(from);
    const auto b = rank_of_.find(to);
    if (a == rank_of_.end() || b == rank_of_.end() || a == b) return 0;
    const double one_end = message_seconds(w, a->second, b->second, size);
    const bool eager = size <= w.job.parameters.eager;
    if (!sends) return eager && w.eager_sends ? one_end : 0;
    // The simulator charges a receive only when the message was sent eagerly: the sender pays for both else.
    return eager && (w.eager_sends || w.charges_receives) ? one_end : 2 * one_end;
  }

 private:
  static constexpr std::size_t kEnvelope = 16;  // bytes that the simulator adds to each message
  std::unordered_map<const sg4::Host*, int> rank_of_;
  std::vector<std::vector<int>> rails_;  // of each rank
};

void read_world() {
  const char* path = std::getenv("TAPA_SIM_JOB");
  std::ifstream file(path == nullptr ? "" : path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  World& w = world();
  w.job = read_job(text, path == nullptr ? "TAPA_SIM_JOB" : path);
  w.rates = rates_from(w.job.topology);
  w.eager_sends = w.job.topology.ranks <= kFewRanks;
  w.nic_bytes.assign(w.job.topology.nics.size(), 0);
}

}  // namespace

}  // namespace tapa::sim

extern "C" tapa::sim::World* tapa_sim_world() {
  return &tapa::sim::world();
}

extern "C" void load_platform(const sg4::Engine& engine) {
  using namespace tapa::sim;
  read_world();
  configure(engine, world());
  const auto costs = std::make_shared<Costs>(Builder(world()).build());
  auto* const model = engine.get_netzone_root()->get_network_model();
  model->set_lat_factor_cb([costs](double size, const sg4::Host* from, const sg4::Host* to, const auto&,
                                   const auto&) { return costs->latency_factor(size, from, to); });
  model->set_bw_factor_cb([costs](double size, const sg4::Host* from, const sg4::Host* to, const auto&,
                                  const auto&) { return costs->bandwidth_factor(size, from, to); });
  for (const SmpiOperation op : {SmpiOperation::SEND, SmpiOperation::ISEND, SmpiOperation::RECV}) {
    smpi_register_op_cost_callback(op, [costs, op](std::size_t size, sg4::Host* from, sg4::Host* to) {
      return costs->cpu(from, to, size, op != SmpiOperation::RECV);
    });
  }
  smpi_comm_set_copy_data_callback(&copy_or_skip);
}
