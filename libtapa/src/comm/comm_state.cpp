#include "comm/comm_state.hpp"

#include <sched.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "autotune/tuning_file.hpp"
#include "comm/guest.hpp"
#include "comm/learnt_store.hpp"
#include "comm/retired_comms.hpp"
#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/log.hpp"
#include "run/progress.hpp"
#include "run/shm_exchange.hpp"
#include "topology/detect.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"

namespace tapa {

namespace {

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

/// Buffers of a communicator may be in GPU memory. A guest keeps nothing that it does not use.
void leave_to_mpi(const std::string& message, int rank) {
  if (is_guest()) throw SetupError(MPI_ERR_OTHER, message);
  static std::atomic<bool> said{false};
  if (rank == 0 && !said.exchange(true)) log_warn(message + "; all-to-all is left to MPI");
}

}  // namespace

CommState::CommState(MPI_Comm user) {
  check_mpi(PMPI_Comm_rank(user, &rank_), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(user, &size_), "MPI_Comm_size");
  if (talks_early(size_)) newcomer_ = Newcomer(true);
}

CommState::~CommState() {
  keep_learnt();
  if (parts_) keep_rows(parts_->report.rows(name_, rank_, size_));
  release();
}

void CommState::release() {
  std::unique_ptr<MeanBlock::Sum> sum;
  if (parts_) {
    parts_->tuner.reset();
    parts_->chooser.cache().clear();
    parts_->channels.set(nullptr);
    sum = parts_->mean.give_up();
  }
  agreement_.node.reset();
  if (agreement_.device_comm != MPI_COMM_NULL) PMPI_Comm_free(&agreement_.device_comm);
  retire(std::exchange(agreement_.comm, MPI_COMM_NULL), std::move(sum));
}

void CommState::release_device() {
  if (device_calls_) device_calls_->release();
  device_calls_.reset();
}

void CommState::set_up(MPI_Comm user, bool defers) {
  if (ready()) return;
  if (failure_) throw SetupError(*failure_);
  free_retired();
  const double began = PMPI_Wtime();
  try {
    adopt(agree_on_setup(user, defers));
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
  name_ = name_for_report(user);
  enlist();
  note_setup_seconds(size_, PMPI_Wtime() - began);
  ready_.store(true, std::memory_order_release);
  freed_communicators.fetch_add(1, std::memory_order_release);  // threads remember that it was not set up
}

void CommState::adopt(Agreement agreement) {
  const std::lock_guard lock(mutex_);
  parts_.emplace(rank_, size_);
  agreement_ = std::move(agreement);
  const std::shared_ptr<const Options> options = agreement_.options;
  oversubscribed_ = agreement_.crowded;
  int* upper = nullptr;
  int found = 0;
  check_mpi(PMPI_Comm_get_attr(agreement_.comm, MPI_TAG_UB, static_cast<void*>(&upper), &found),
            "MPI_Comm_get_attr");
  parts_->order = CallOrder(found != 0 ? *upper : 32767);
  MachineView machine = view_machine(*options);
  decide_device_way(*options, machine);
  if (machine.gpu_memory) leave_to_mpi(gpu_message(agreement_.gpu_rank, device_way_.why), rank_);
  if (agreement_.device_comm != MPI_COMM_NULL)
    device_calls_.emplace(std::exchange(agreement_.device_comm, MPI_COMM_NULL), rank_, agreement_.device);
  if (machine.shares_buffers) {
    std::vector<int> level;
    for (int peer = 0; peer < size_; ++peer) level.push_back(machine.topology->level_of(rank_, peer));
    agreement_.node->set_order(near_first(static_cast<std::size_t>(rank_), level));
    agreement_.node->tell_together(!oversubscribed_);
    parts_->channels.set(agreement_.node.get());
  }
  parts_->chooser.set(options, std::move(machine));
  note_options();
  recall_learnt();
}

/// What follows from the options.
void CommState::note_options() {
  const Settings& s = parts_->chooser.options()->settings();
  const MachineView& machine = parts_->chooser.machine();
  fast_ = s.enable && s.check < Check::counts && s.report == Reporting::off && !s.explain && s.timeout <= 0;
  fast_bytes_ = 0;
  fast_counted_ = nullptr;
  mpi_is_forced_ = parts_->chooser.mpi_is_forced();
  is_mpis_ = machine.gpu_memory;
  trusts_buffers_ = s.gpu == GpuBuffers::host;
  if (device_calls_) device_calls_->use_wire(engine_wire(device_way_, s));
  parts_->mean.forget();
  always_memory_ =
      fast_ && machine.shares_buffers && parts_->chooser.one_choice() && !mpi_is_forced_ &&
      (s.plan ? s.plan->algorithm == Algorithm::memory
              : parts_->chooser.decide(0, {true, true, false}).choice.algorithm == Algorithm::memory);
  check_ = s.check;
  wait_policy_ = policy_of(s.wait, oversubscribed_);
  // Rank 0's wish, but each node's own number of cores.
  if (agreement_.node) agreement_.node->expect_sleepers(s.wait == Wait::sleep);
}

MachineView CommState::view_machine(const Options& options) const {
  const std::string& text = options.settings().topology;
  Topology topology;
  if (options.origin("topology") == Origin::call && !text.empty()) {
    topology = override_topology(text, size_);
  } else if (!text.empty()) {
    topology = read_topology(agreement_.topology, "topology of rank 0");
    topology.sources.insert(topology.sources.begin(), {"override", true, "TAPA_TOPOLOGY=" + text});
  } else if (std::ranges::any_of(agreement_.records, &std::string::empty)) {
    topology = make_uniform_topology({size_});
  } else {
    topology = merge_records(agreement_.records);
  }
  MachineView view;
  view.rates = rates_from(topology);
  if (over_tcp(topology) && striped(topology)) view.rates.stripe_from = 65536 + 1;
  if (!agreement_.tuning.empty()) {
    const Tuning tuning = parse_tuning(agreement_.tuning, options.settings().tuning);
    view.rates = tuned_rates(tuning, topology, view.rates);
    view.measurements = tuned_measurements(tuning, topology);
    if (rank_ == 0 && view.measurements.empty()) {
      log_info("tuning file " + options.settings().tuning +
               " is for another shape: its rates are used, its measured times are not");
    }
  }
  if (options.settings().nic_rate) view.rates.nic_bandwidth = *options.settings().nic_rate;
  view.shares_buffers =
      agreement_.node && agreement_.ranks_on_host == size_ && agreement_.node->buffers(0) != nullptr;
  view.topology = std::make_shared<const Topology>(std::move(topology));
  return view;
}

void CommState::decide_device_way(const Options& options, MachineView& machine) {
  device_way_ = tapa::decide_device_way(agreement_.device, options.settings());
  machine.gpu_memory = device_way_.way == DeviceWay::mpi;
}

// Open MPI spreads only messages above its eager limit over several NICs, so long ones stay whole there.
bool CommState::striped(const Topology& topology) const {
  return !agreement_.one_rail && static_cast<int>(topology.nics.size()) > topology.nodes();
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
      entry.plan, std::make_unique<NodeTransport>(agreement_.comm, agreement_.node.get(),
                                                  shm_limit(entry.choice), piece(), wait_policy()));
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
