#include "comm/comm_state.hpp"

#include <sched.h>

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

#include "autotune/tuning_file.hpp"
#include "comm/names.hpp"
#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/log.hpp"
#include "run/progress.hpp"
#include "run/shm_exchange.hpp"
#include "run/world.hpp"
#include "topology/detect.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"
#include "world/guest.hpp"

namespace tapa {

namespace {

// Bytes of a block. Measured with 32 ranks on 32 cores and with 16 on 2: up to there shared memory is always
// faster than MPI.
constexpr std::size_t kSure = std::size_t{64} << 10;
constexpr std::size_t kSureCrowded = std::size_t{4} << 10;

WaitPolicy policy_of(Wait wait, bool oversubscribed) {
  switch (wait) {
    case Wait::spin:
      return WaitPolicy::spin;
    case Wait::yield:
      return WaitPolicy::yield;
    case Wait::sleep:
      return WaitPolicy::sleep;
    default:
      return oversubscribed ? WaitPolicy::yield : WaitPolicy::spin;
  }
}

/// Said once, by rank 0.
void warn_of_gpus(const std::string& message, int rank) {
  static std::atomic<bool> said{false};
  if (rank == 0 && !said.exchange(true)) log_warn(message + "; all-to-all is left to MPI");
}

/// Buffers of a communicator may be in GPU memory. A guest keeps nothing that it does not use.
void leave_to_mpi(const std::string& message, int rank) {
  if (is_guest()) throw SetupError(MPI_ERR_OTHER, message);
  warn_of_gpus(message, rank);
}

}  // namespace

CommState::CommState(MPI_Comm user) {
  check_mpi(PMPI_Comm_rank(user, &rank_), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(user, &size_), "MPI_Comm_size");
}

CommState::~CommState() {
  keep_learnt();
  if (parts_) keep_rows(parts_->report.rows(name_, rank_, size_));
  release();
}

void CommState::release() {
  std::uint64_t rounds = 0;
  if (parts_) {
    parts_->tuner.reset();
    parts_->chooser.cache().clear();
    parts_->mean.give_up();
    rounds = parts_->regions.close();
  }
  leave_world(membership_, rank_, rounds);
}

void CommState::release_device() {
  if (device_calls_) device_calls_->release();
  device_calls_.reset();
}

void CommState::set_up(MPI_Comm user, std::vector<int> in_world) {
  if (ready()) return;
  if (failure_) throw SetupError(*failure_);
  const double began = PMPI_Wtime();
  try {
    adopt(join_world(user, std::move(in_world)));
  } catch (const SetupError& e) {
    failure_ = std::make_unique<SetupError>(e);
  } catch (const std::invalid_argument& e) {
    failure_ = std::make_unique<SetupError>(MPI_ERR_ARG, e.what());
  }
  if (failure_) {
    release_device();
    release();
    parts_.reset();
    throw SetupError(*failure_);
  }
  come_to_life(user, began);
}

void CommState::set_up_whole(const std::shared_ptr<World>& world) {
  const double began = PMPI_Wtime();
  adopt(join_as_whole(world));
  gpus_are_open_ = world->sees_gpus();
  if (parts_->regions.available()) parts_->regions.common().touch();
  come_to_life(MPI_COMM_WORLD, began);
}

void CommState::ask_for_gpus(MPI_Comm user) {
  tapa::ask_for_gpus(user, membership_);
  const Progress::Pause pause;  // tasks take the lock too
  const std::lock_guard lock(mutex_);
  gpus_are_open_ = false;
  if (!membership_.device.in_use) return;
  const std::shared_ptr<const Options> options = parts_->chooser.options();
  MachineView machine = parts_->chooser.machine();
  decide_device_way(*options, machine);
  if (machine.gpu_memory) warn_of_gpus(gpu_message(membership_.gpu_rank, device_way_.why), rank_);
  if (membership_.device_comm != MPI_COMM_NULL)
    device_calls_.emplace(std::exchange(membership_.device_comm, MPI_COMM_NULL), rank_, membership_.device);
  parts_->chooser.set(options, std::move(machine));
  note_options();
  freed_communicators.fetch_add(1, std::memory_order_release);  // threads remember other ways
}

void CommState::come_to_life(MPI_Comm user, double began) {
  name_ = name_for_report(user);
  enlist();
  note_setup(PMPI_Wtime() - began);
  ready_.store(true, std::memory_order_release);
  freed_communicators.fetch_add(1, std::memory_order_release);  // threads remember that it was not set up
}

bool CommState::welcome(MPI_Comm user, bool alone) noexcept {
  if (ready()) return true;
  if (given_up_ && !alone) return false;
  try {
    // Others may not have the drop-in: ranks that were spawned do not inherit it.
    const auto world = World::of_process();
    std::vector<int> ranks;
    if (world && (size_ > 1 || alone)) ranks = world->ranks_of(user);
    if (ranks.empty() || std::ranges::find(ranks, MPI_UNDEFINED) != ranks.end()) {
      given_up_ = true;
      return false;
    }
    set_up(user, std::move(ranks));
    return true;
  } catch (const SetupError& e) {  // all ranks know
    given_up_ = true;
    if (rank_ == 0) log_info(std::string("a communicator stays with MPI: ") + e.what());
    return false;
  } catch (const std::exception& e) {  // this rank may be the only one that knows: nobody could go on
    log_error(std::string("the ranks of a communicator could not agree: ") + e.what());
    PMPI_Abort(user, 1);
    return false;
  }
}

void CommState::adopt(Membership membership) {
  const std::lock_guard lock(mutex_);
  parts_.emplace(rank_, size_);
  membership_ = std::move(membership);
  space_ = membership_.space();
  const std::shared_ptr<const Options> options = membership_.world->options();
  parts_->order = CallOrder(space_.first_tag, space_.tags, 4 * size_ + 64);
  has_progress_ = membership_.world->has_progress();
  if (membership_.region.count > 0) parts_->regions.set(membership_, rank_, manners(*options));
  MachineView machine = view_machine(*options);
  decide_device_way(*options, machine);
  if (machine.gpu_memory) leave_to_mpi(gpu_message(membership_.gpu_rank, device_way_.why), rank_);
  if (is_guest() && membership_.one_node && !parts_->regions.available())
    throw SetupError(MPI_ERR_OTHER, "no memory of its node is left for it");
  if (membership_.device_comm != MPI_COMM_NULL)
    device_calls_.emplace(std::exchange(membership_.device_comm, MPI_COMM_NULL), rank_, membership_.device);
  parts_->chooser.set(options, std::move(machine));
  if (is_guest()) parts_->tuner.limit(0);
  note_options();
  recall_learnt();
}

/// Each rank may have a threshold of its own for blocks that stay: a block's way is its sender's decision.
RegionManners CommState::manners(const Options& options) const {
  const World& world = *membership_.world;
  const Settings& s = options.settings();
  std::size_t from = s.attach_from;
  if (options.origin("attach-from") == Origin::standard) {
    // Measured with 4 and 16 ranks on 2 cores: to wait until all readers had a core costs more than a second
    // copy. Measured with 64 ranks on 64 cores: shorter blocks are slow as well when a buffer does not hold
    // one for each member.
    const std::size_t half = from / 2;
    if (world.crowded())
      from *= 2;
    else if (half * static_cast<std::size_t>(size_ - 1) >= ShmBuffers::kBufferBytes)
      from = half;
  }
  if (!world.attaches() || from == 0) from = std::numeric_limits<std::size_t>::max();
  return {from, !world.crowded(), s.wait == Wait::sleep};
}

/// What follows from the options.
void CommState::note_options() {
  const Settings& s = parts_->chooser.options()->settings();
  const MachineView& machine = parts_->chooser.machine();
  fast_ = s.enable && s.check < Check::data;
  reports_ = s.report != Reporting::off;
  samples_ = s.report == Reporting::on;
  explains_ = s.explain;
  timeout_ = s.timeout;
  fast_bytes_ = 0;
  fast_counted_ = nullptr;
  mpi_is_forced_ = parts_->chooser.mpi_is_forced();
  is_mpis_ = machine.gpu_memory;
  trusts_buffers_ = s.gpu == GpuBuffers::host;
  if (device_calls_) device_calls_->use_wire(engine_wire(device_way_, s));
  parts_->mean.forget();
  // Where the ranks share memory it is the first choice for all sizes.
  always_memory_ = fast_ && machine.shares_buffers && parts_->chooser.one_choice() && !mpi_is_forced_ &&
                   (!s.plan || s.plan->algorithm == Algorithm::memory);
  check_ = s.check;
  wait_policy_ = policy_of(s.wait, oversubscribed());
  // Rank 0's wish, but each node's own number of cores.
  parts_->regions.expect_sleepers(s.wait == Wait::sleep);
}

/// As the options ask for it, or as the world's ranks have described it; of a guest on one node nothing is
/// asked.
Topology CommState::topology_of(const Options& options) const {
  const World& world = *membership_.world;
  const std::string& text = options.settings().topology;
  if (options.origin("topology") == Origin::call && !text.empty()) return override_topology(text, size_);
  if (!text.empty()) {
    Topology topology = read_topology(world.topology(), "topology of rank 0").subset(membership_.in_world);
    topology.sources.insert(topology.sources.begin(), {"override", true, "TAPA_TOPOLOGY=" + text});
    return topology;
  }
  std::vector<std::string> records;
  for (const int r : membership_.in_world) {
    if (!world.records().empty()) records.push_back(world.records()[static_cast<std::size_t>(r)]);
  }
  if (!records.empty() && std::ranges::none_of(records, &std::string::empty)) return merge_records(records);
  if (!membership_.one_node) return make_uniform_topology({size_});
  Topology topology = make_uniform_topology({1, size_});
  topology.merge_equal_levels();
  if (world.crowded()) topology.cores_per_rank = 0.5;
  return topology;
}

/// Whether nothing is known of the machine but that the ranks share a node: so it is as for other
/// communicators of as many.
bool CommState::is_plain(const Options& options) const {
  const World& world = *membership_.world;
  return is_guest() && membership_.one_node && world.records().empty() && world.tuning().empty() &&
         options.settings().topology.empty() && !options.settings().nic_rate;
}

MachineView CommState::view_machine(const Options& options) const {
  if (is_plain(options)) {
    static std::mutex mutex;
    static auto* const views =
        new std::map<int, MachineView>;  // by size; MPI may end after static objects do
    const std::lock_guard lock(mutex);
    auto [view, fresh] = views->try_emplace(size_);
    if (fresh) view->second = describe_machine(options);
    MachineView mine = view->second;
    note_memory(mine);
    return mine;
  }
  MachineView view = describe_machine(options);
  note_memory(view);
  return view;
}

void CommState::note_memory(MachineView& view) const {
  view.shares_buffers = parts_->regions.available();
  view.sure_bytes = !is_guest() || !view.shares_buffers ? 0
                    : membership_.world->crowded()      ? kSureCrowded
                                                        : kSure;
}

MachineView CommState::describe_machine(const Options& options) const {
  Topology topology = topology_of(options);
  const std::string& tuning_text = membership_.world->tuning();
  MachineView view;
  view.rates = rates_from(topology);
  if (over_tcp(topology) && striped(topology)) view.rates.stripe_from = 65536 + 1;
  if (!tuning_text.empty()) {
    const Tuning tuning = parse_tuning(tuning_text, options.settings().tuning);
    view.rates = tuned_rates(tuning, topology, view.rates);
    view.measurements = tuned_measurements(tuning, topology);
    if (rank_ == 0 && view.measurements.empty()) {
      log_info("tuning file " + options.settings().tuning +
               " is for another shape: its rates are used, its measured times are not");
    }
  }
  if (options.settings().nic_rate) view.rates.nic_bandwidth = *options.settings().nic_rate;
  view.topology = std::make_shared<const Topology>(std::move(topology));
  return view;
}

void CommState::decide_device_way(const Options& options, MachineView& machine) {
  device_way_ = tapa::decide_device_way(membership_.device, options.settings());
  machine.gpu_memory = device_way_.way == DeviceWay::mpi;
}

// Open MPI spreads only messages above its eager limit over several NICs, so long ones stay whole there.
bool CommState::striped(const Topology& topology) const {
  return membership_.world->hello(0).one_rail == 0 &&
         static_cast<int>(topology.nics.size()) > topology.nodes();
}

std::shared_ptr<const Options> CommState::options() const {
  const std::lock_guard lock(mutex_);
  return parts_->chooser.options();
}

std::shared_ptr<const Topology> CommState::topology() const {
  const std::lock_guard lock(mutex_);
  return parts_->chooser.machine().topology;
}

/// Until nothing waits for its plan any more: ranks whose calls get theirs sooner and later must not get
/// different ones.
void CommState::wait_for_turns() {
  while (!parts()->order.idle()) {
    Progress::relay();
    waiter().drive_mpi();
    sched_yield();
  }
}

void CommState::set_option(std::string_view name, std::string_view value) {
  wait_for_turns();
  const Progress::Pause pause;  // what is reset may wait inside MPI, and tasks take the lock too
  const std::lock_guard lock(mutex_);
  auto after = std::make_shared<Options>(*parts_->chooser.options());
  after->set(name, value, Origin::call);
  const bool new_machine = name == "topology" || name == "nic-rate";
  MachineView machine = new_machine ? view_machine(*after) : parts_->chooser.machine();
  decide_device_way(*after, machine);
  parts_->tuner.reset();
  parts_->chooser.set(after, std::move(machine));
  note_options();
  // Threads remember calls that the ranks may have to agree on from now on.
  freed_communicators.fetch_add(1, std::memory_order_release);
  if (name == "log") set_log_level(after->settings().log);
}

std::vector<ReportRow> CommState::report_rows() const {
  const std::lock_guard lock(mutex_);
  return parts_->report.rows(name_, rank_, size_);
}

std::unique_ptr<Executor> CommState::take_executor(PlanEntry& entry) {
  if (auto executor = parts()->chooser.cache().take(entry)) return executor;
  return std::make_unique<Executor>(
      entry.plan, std::make_unique<NodeTransport>(space_, membership_.world->shm(), shm_limit(entry.choice),
                                                  piece(), wait_policy()));
}

void CommState::give_executor(PlanEntry& entry, std::unique_ptr<Executor> executor) {
  parts()->chooser.cache().keep(entry, std::move(executor));
}

// What passes blocks on has messages of many pieces. MPI would need them in one: a copy more at both ends.
std::size_t CommState::shm_limit(const Choice& choice) const {
  constexpr std::size_t in_pieces = 32;
  const std::size_t limit = options()->settings().shm_limit;
  const Algorithm a = choice.algorithm;
  const bool passes_on = a == Algorithm::tapa || a == Algorithm::leaders || a == Algorithm::bruck;
  return passes_on && limit <= std::numeric_limits<std::size_t>::max() / in_pieces ? in_pieces * limit
                                                                                   : limit;
}

std::size_t CommState::piece() const {
  // Below the usual eager limit of MPI over TCP, 64 KiB: a rendezvous would stand in line behind other data.
  constexpr std::size_t over_tcp_piece = 32768;
  const std::size_t wanted = options()->settings().piece;
  if (wanted > 0) return wanted;
  const auto topology = this->topology();
  return over_tcp(*topology) && !striped(*topology) ? over_tcp_piece : MpiTransport::kIntMax;
}

}  // namespace tapa
