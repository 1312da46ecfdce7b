#include "comm/comm_state.hpp"

#include <sched.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "comm/call_notes.hpp"
#include "comm/device_calls.hpp"
#include "comm/machine_view.hpp"
#include "comm/past_calls.hpp"
#include "comm/registry.hpp"
#include "comm/results_store.hpp"
#include "run/end_job.hpp"
#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/log.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"
#include "world/drop_in.hpp"

namespace tapa {

namespace {

WaitPolicy policy_of(Wait wait, bool crowded) {
  if (wait == Wait::sleep) return WaitPolicy::sleep;
  const bool yields = wait == Wait::yield || (wait == Wait::automatic && crowded);
  return yields ? WaitPolicy::yield : WaitPolicy::spin;
}

/// What threads remember of communicators may hold no more.
void forget_remembered() {
  freed_communicators.fetch_add(1, std::memory_order_release);
}

Rules rules_for(const std::shared_ptr<const Options>& options, const PlanChooser& chooser,
                const DeviceDecision& device, bool crowded) {
  const Settings& s = options->settings();
  const MachineView& machine = chooser.machine();
  Rules rules;
  static_cast<Settings&>(rules) = s;
  rules.options = options;
  rules.topology = machine.topology;
  rules.trusts_buffers = s.gpu == GpuBuffers::host;
  rules.is_mpis = machine.gpu_memory;
  rules.mpi_is_forced = chooser.mpi_is_forced();
  // MPI runs beside calls whose turn it is, which ranks whose sizes differ would count otherwise.
  const bool samples = s.report == Reporting::on;
  rules.fast = s.enable && s.check < Check::data && !(samples && rules.compares());
  rules.always_memory = rules.fast && machine.shares_buffers && chooser.one_choice() &&
                        !rules.mpi_is_forced && (!s.plan || s.plan->algorithm == Algorithm::memory);
  rules.device = device;
  rules.waiting = policy_of(s.wait, crowded);
  return rules;
}

}  // namespace

CommState::CommState(MPI_Comm user) : user(user), rank(rank_in(user)), size(size_of(user)) {}

CommState::~CommState() {
  keep_results(*this);
  if (parts_) keep_counts(membership, rank, *parts_);
  release();
}

const Edges* CommState::edges(bool nonblocking) {
  KnownEdges& known = edges_[nonblocking ? 1 : 0];
  std::call_once(known.looked, [&] { known.edges = edges_of(user, nonblocking); });
  return known.edges.get();
}

void CommState::release() {
  std::uint64_t rounds = 0;
  if (parts_) {
    parts_->tuner.reset();
    parts_->chooser.cache().clear();
    parts_->mean.give_up();
    parts_->neighbourhood.give_up();
    rounds = parts_->regions.close();
  }
  leave_world(membership, rank, rounds);
}

void CommState::release_device() {
  if (device_calls_) device_calls_->release();
  device_calls_.reset();
}

void CommState::set_up(std::vector<int> in_world) {
  if (ready()) return;
  if (failure_) throw SetupError(*failure_);
  const double began = PMPI_Wtime();
  JointSteps steps;
  try {
    steps.run([&] { adopt(join_world(user, std::move(in_world), steps)); });
  } catch (const SetupError& e) {
    failure_ = e;
  } catch (const std::invalid_argument& e) {
    failure_.emplace(MPI_ERR_ARG, e.what());
  } catch (...) {
    forget();
    throw;
  }
  if (failure_) {
    forget();
    throw SetupError(*failure_);
  }
  come_to_life(began);
}

/// As if it had not been tried.
void CommState::forget() {
  release_device();
  release();
  parts_.reset();
  membership = {};
}

void CommState::set_up_whole(const std::shared_ptr<World>& world, double began) {
  adopt(join_as_whole(world));
  gpus_are_open_ = world->sees_gpus;
  if (parts_->regions.available()) parts_->regions.common().map_others();
  come_to_life(began);
}

void CommState::come_to_life(double began) {
  {
    const auto total = locked<SetupTotal>();
    ++total->setups;
    total->seconds += PMPI_Wtime() - began;
  }
  ready_.store(true, std::memory_order_release);
  forget_remembered();  // that it was not set up
}

bool CommState::welcome(bool alone) noexcept {
  if (ready()) return true;
  if (given_up && !alone) return false;
  try {
    // Others may not have the drop-in: ranks that were spawned do not inherit it.
    const auto world = World::of_process();
    std::vector<int> ranks;
    if (world && (size > 1 || alone)) ranks = world->ranks_of(user);
    if (ranks.empty() || std::ranges::find(ranks, MPI_UNDEFINED) != ranks.end()) {
      given_up = true;
      return false;
    }
    const WaitsInMpi waits(ranks, rank);
    set_up(std::move(ranks));
    return true;
  } catch (const SetupError& e) {  // all ranks know
    given_up = true;
    if (rank == 0) log_info("a communicator stays with MPI", e.what());
    return false;
  } catch (const std::exception& e) {  // this rank may be the only one that knows: nobody could go on
    end_job(user, "the ranks of a communicator could not agree", e.what());
    return false;
  }
}

void CommState::adopt(Membership joined) {
  std::unique_lock lock(mutex_);
  membership = std::move(joined);
  parts_.emplace(rank, size);
  space = membership.space();
  const std::shared_ptr<const Options> options = membership.world->shared.options;
  parts_->order = CallOrder(space.first_tag, space.tags, 4 * size + 64);
  if (membership.region.count > 0) parts_->regions.set(membership, rank, manners_of(membership, *options));
  follow(options, view_machine(membership, *options, rank));
  if (parts_->regions.available()) memory_run.reserve(size);
  use_device_comm();
  if (is_drop_in() && membership.one_node && !parts_->regions.available())
    throw SetupError(MPI_ERR_OTHER, "no memory of its node is left for it");
  if (is_drop_in()) parts_->tuner.limit(0);
  recall_results(std::exchange(membership.results, {}), *parts_);
  lock.unlock();
  parts_->name = name_for_report(user);
  enlist(shared_from_this());
}

/// Takes what the set-up has made for buffers in GPU memory, and says what they cannot have.
void CommState::use_device_comm() {
  if (membership.device_comm != MPI_COMM_NULL) {
    device_calls_ = std::make_unique<DeviceCalls>(std::exchange(membership.device_comm, MPI_COMM_NULL), rank,
                                                  membership.device);
    device_calls_->use_wire(engine_wire(rules().device, rules()));
  }
  if (!rules().is_mpis) return;
  const std::string message = gpu_message(membership.gpu_rank, rules().device.why);
  // The drop-in keeps nothing that it does not use.
  if (is_drop_in() && !ready()) throw SetupError(MPI_ERR_OTHER, message);
  if (rank == 0) warn_all_is_mpis(message);
}

void CommState::ask_for_gpus() {
  if (!gpus_are_open_.load(std::memory_order_relaxed)) return;
  tapa::ask_for_gpus(user, membership);
  const Progress::Pause pause;  // tasks take the lock too
  const std::lock_guard lock(mutex_);
  gpus_are_open_ = false;
  if (!membership.device.in_use) return;
  follow(parts_->chooser.options(), parts_->chooser.machine());
  use_device_comm();
  forget_remembered();
}

/// What follows from options and machine. The lock is held.
void CommState::follow(const std::shared_ptr<const Options>& options, MachineView machine) {
  const DeviceDecision device = decide_device_way(membership.device, options->settings());
  machine.gpu_memory = device.way == DeviceWay::mpi;
  parts_->chooser.set(options, std::move(machine));
  parts_->mean.forget();
  parts_->neighbourhood.forget();
  parts_->last = {};
  parts_->regions.expect_sleepers(options->settings().wait == Wait::sleep);
  parts_->rules =
      std::make_shared<const Rules>(rules_for(options, parts_->chooser, device, membership.world->crowded));
  rules_of_calls_.store(parts_->rules.get(), std::memory_order_release);
  if (device_calls_) device_calls_->use_wire(engine_wire(device, options->settings()));
}

void CommState::set_option(std::string_view name, std::string_view value) {
  // Ranks whose calls get their plans sooner and later must not get different ones.
  while (!parts()->order.idle()) {
    Progress::relay();
    waiter().drive_mpi();
    sched_yield();
  }
  const Progress::Pause pause;  // what is reset may wait inside MPI, and tasks take the lock too
  const std::lock_guard lock(mutex_);
  auto after = std::make_shared<Options>(*parts_->rules->options);
  after->set(name, value, Origin::call);
  const bool new_machine = name == "topology" || name == "nic-rate";
  MachineView machine = new_machine ? view_machine(membership, *after, rank) : parts_->chooser.machine();
  parts_->tuner.reset();
  follow(after, std::move(machine));
  forget_remembered();  // the ranks may have to agree on calls from now on
  if (name == "log") set_log_level(after->settings().log);
}

}  // namespace tapa
