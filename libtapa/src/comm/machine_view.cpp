#include "comm/machine_view.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "autotune/tuning_file.hpp"
#include "run/log.hpp"
#include "topology/detect.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"
#include "world/drop_in.hpp"

namespace tapa {

namespace {

// Bytes of a block, up to which memory was always faster than MPI: 32 ranks on 32 cores, and 16 on 2.
constexpr std::size_t kSure = std::size_t{64} << 10;
constexpr std::size_t kSureCrowded = std::size_t{4} << 10;

/// As the options ask for it, or the ranks have described it; under the drop-in on one node nobody has.
Topology topology_of(const Membership& membership, const Options& options) {
  const World& world = *membership.world;
  const int size = static_cast<int>(membership.in_world.size());
  const std::string& text = options.settings().topology;
  if (options.origin("topology") == Origin::call && !text.empty()) return override_topology(text, size);
  if (!text.empty()) {
    Topology topology =
        read_topology(world.shared.topology, "topology of rank 0").subset(membership.in_world);
    topology.sources.insert(topology.sources.begin(), {"override", true, "TAPA_TOPOLOGY=" + text});
    return topology;
  }
  std::vector<std::string> records;
  for (const int r : membership.in_world) {
    if (!world.records.empty()) records.push_back(world.records[static_cast<std::size_t>(r)]);
  }
  if (!records.empty() && std::ranges::none_of(records, &std::string::empty)) return merge_records(records);
  if (!membership.one_node) return make_uniform_topology({size});
  Topology topology = make_uniform_topology({1, size});
  topology.merge_equal_levels();
  if (world.crowded) topology.cores_per_rank = 0.5;
  return topology;
}

/// Whether no more is known than that the ranks share a node: as for all communicators of as many.
bool is_plain(const Membership& membership, const Options& options) {
  const World& world = *membership.world;
  return is_drop_in() && membership.one_node && world.records.empty() && world.shared.tuning.empty() &&
         options.settings().topology.empty() && !options.settings().nic_rate;
}

MachineView describe_machine(const Membership& membership, const Options& options, int rank) {
  Topology topology = topology_of(membership, options);
  const std::string& tuning_text = membership.world->shared.tuning;
  MachineView view;
  view.rates = rates_from(topology);
  if (over_tcp(topology) && is_striped(membership, topology)) view.rates.stripe_from = 65536 + 1;
  if (!tuning_text.empty()) {
    const Tuning tuning = parse_tuning(tuning_text, options.settings().tuning);
    view.rates = tuned_rates(tuning, topology, view.rates);
    view.measurements = tuned_measurements(tuning, topology);
    if (rank == 0 && view.measurements.empty()) {
      log_info("tuning file " + options.settings().tuning +
               " is for another shape: its rates are used, its measured times are not");
    }
  }
  if (options.settings().nic_rate) view.rates.nic_bandwidth = *options.settings().nic_rate;
  view.topology = std::make_shared<const Topology>(std::move(topology));
  return view;
}

MachineView plain_machine(const Membership& membership, const Options& options, int rank) {
  static std::mutex mutex;
  static auto* const views = new std::map<std::size_t, MachineView>;  // MPI may end after static objects do
  const std::lock_guard lock(mutex);
  auto [view, fresh] = views->try_emplace(membership.in_world.size());
  if (fresh) view->second = describe_machine(membership, options, rank);
  return view->second;
}

}  // namespace

MachineView view_machine(const Membership& membership, const Options& options, int rank) {
  MachineView view = is_plain(membership, options) ? plain_machine(membership, options, rank)
                                                   : describe_machine(membership, options, rank);
  view.shares_buffers = membership.region.count > 0;
  view.crowded = membership.world->crowded;
  view.sure_bytes = !is_drop_in() || !view.shares_buffers ? 0 : view.crowded ? kSureCrowded : kSure;
  return view;
}

RegionManners manners_of(const Membership& membership, const Options& options) {
  const World& world = *membership.world;
  const Settings& s = options.settings();
  std::size_t from = s.attach_from;
  if (options.origin("attach-from") == Origin::standard) {
    // Measured: on 2 cores to wait until all readers had one costs more than a second copy; on 64 cores
    // shorter blocks are slow as well where a buffer does not hold one for each member.
    const std::size_t half = from / 2;
    if (world.crowded)
      from *= 2;
    else if (half * (membership.in_world.size() - 1) >= ShmBuffers::kBufferBytes)
      from = half;
  }
  if (!world.attaches || from == 0) from = std::numeric_limits<std::size_t>::max();
  return {from, !world.crowded, s.wait == Wait::sleep};
}

bool is_striped(const Membership& membership, const Topology& topology) {
  return membership.world->hello(0).one_rail == 0 &&
         static_cast<int>(topology.nics.size()) > topology.nodes();
}

}  // namespace tapa
