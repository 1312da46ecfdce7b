#include "comm/comm_state.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <utility>

#include "autotune/tuning_file.hpp"
#include "plan/planner.hpp"
#include "run/datatype.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "topology/detect.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"
#include "transport/node_transport.hpp"

namespace tapa {

namespace {

// Tags are dealt out in windows. Half of them are for persistent operations.
constexpr int kMaxWindow = 1 << 16;
constexpr int kMinWindows = 64;

Choice only(Algorithm algorithm) {
  Choice choice;
  choice.algorithm = algorithm;
  return choice;
}

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

}  // namespace

CommState::CommState(MPI_Comm user) : setup_(std::make_unique<Setup>(user)) {
  check_mpi(PMPI_Comm_rank(user, &rank_), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(user, &size_), "MPI_Comm_size");
  char text[MPI_MAX_OBJECT_NAME] = {};
  int length = 0;
  PMPI_Comm_get_name(user, text, &length);
  name_.assign(text, static_cast<std::size_t>(length));
}

CommState::~CommState() {
  keep_rows(report_.rows(name_, rank_, size_));
  release();
}

void CommState::release() {
  setup_.reset();
  if (mean_request_ != MPI_REQUEST_NULL) PMPI_Wait(&mean_request_, MPI_STATUS_IGNORE);
  end_autotunings();
  plans_.clear();
  agreement_.node.reset();
  if (agreement_.comm != MPI_COMM_NULL) PMPI_Comm_free(&agreement_.comm);
}

// MPI calls may run the progress hook, which advances other operations, which ask for readiness too: whoever
// finds somebody at it already leaves it to them. No lock is held while MPI is called.
bool CommState::ready() {
  if (ready_.load(std::memory_order_acquire)) return true;
  if (in_setup_.test_and_set(std::memory_order_acquire)) return false;
  const auto leave = [this](CommState*) { in_setup_.clear(std::memory_order_release); };
  const std::unique_ptr<CommState, decltype(leave)> guard(this, leave);
  if (failure_) throw CallError(*failure_);
  if (ready_.load(std::memory_order_relaxed)) return true;
  try {
    if (!setup_->advance()) return false;
    const std::lock_guard lock(mutex_);
    adopt(setup_->take());
    setup_.reset();
    ready_.store(true, std::memory_order_release);
    return true;
  } catch (const CallError& e) {
    failure_ = std::make_unique<CallError>(e);
    throw;
  } catch (const std::invalid_argument& e) {
    failure_ = std::make_unique<CallError>(MPI_ERR_ARG, e.what());
    throw CallError(*failure_);
  }
}

void CommState::adopt(Agreement agreement) {
  agreement_ = std::move(agreement);
  options_ = std::make_shared<Options>(agreement_.options);
  oversubscribed_ = agreement_.ranks_on_host > agreement_.cores_on_host;
  int* upper = nullptr;
  int found = 0;
  check_mpi(PMPI_Comm_get_attr(agreement_.comm, MPI_TAG_UB, static_cast<void*>(&upper), &found),
            "MPI_Comm_get_attr");
  if (found != 0) tag_limit_ = *upper;
  make_topology();
  shares_buffers_ =
      agreement_.node && agreement_.ranks_on_host == size_ && agreement_.node->buffers(0) != nullptr;
  if (shares_buffers_) {
    std::vector<int> level;
    for (int peer = 0; peer < size_; ++peer) level.push_back(topology_->level_of(rank_, peer));
    agreement_.node->set_order(near_first(static_cast<std::size_t>(rank_), level));
    agreement_.node->tell_together(!oversubscribed_);
  }
  note_options();
}

/// What follows from the options.
void CommState::note_options() {
  const Settings& s = options_->settings();
  fast_ = s.enable && s.check < Check::counts && !s.report && !s.explain && s.timeout <= 0;
  fast_bytes_ = 0;
  mpi_is_forced_ = !s.enable || s.plan.has_value();
  shared_mean_.reset();
  mpi_blocks_ = 0;
  always_memory_ = fast_ && shares_buffers_ && one_choice_locked() &&
                   (s.plan ? s.plan->algorithm == Algorithm::memory && why_not(*topology_, *s.plan).empty()
                           : decide_locked(false, 0, {true, true}).choice.algorithm == Algorithm::memory);
  check_ = s.check;
  wait_policy_ = policy_of(s.wait, oversubscribed_);
  if (agreement_.node) {
    // Rank 0's wish, but each node's own number of cores.
    agreement_.node->expect_sleepers(s.wait == Wait::sleep);
  }
}

void CommState::make_topology() {
  const std::string& text = options_->settings().topology;
  Topology topology;
  if (options_->origin("topology") == Origin::call && !text.empty()) {
    topology = override_topology(text, size_);
  } else if (!text.empty()) {
    topology = read_topology(agreement_.topology, "topology of rank 0");
    topology.sources.insert(topology.sources.begin(), {"override", true, "TAPA_TOPOLOGY=" + text});
  } else if (std::ranges::any_of(agreement_.records, &std::string::empty)) {
    topology = make_uniform_topology({size_});
  } else {
    topology = merge_records(agreement_.records);
  }
  rates_ = rates_from(topology);
  if (over_tcp(topology) && striped(topology)) rates_.stripe_from = 65536 + 1;
  measurements_.clear();
  if (!agreement_.tuning.empty()) {
    const Tuning tuning = parse_tuning(agreement_.tuning, agreement_.options.settings().tuning);
    rates_ = tuned_rates(tuning, topology, rates_);
    measurements_ = tuned_measurements(tuning, topology);
    if (rank_ == 0 && measurements_.empty()) {
      log_info("tuning file " + agreement_.options.settings().tuning +
               " is for another shape: its rates are used, its measured times are not");
    }
  }
  if (options_->settings().nic_rate) rates_.nic_bandwidth = *options_->settings().nic_rate;
  topology_ = std::make_shared<const Topology>(std::move(topology));
}

std::shared_ptr<const Options> CommState::options() const {
  const std::lock_guard lock(mutex_);
  return options_;
}

std::shared_ptr<const Topology> CommState::topology() const {
  const std::lock_guard lock(mutex_);
  return topology_;
}

void CommState::set_option(std::string_view name, std::string_view value) {
  const std::lock_guard lock(mutex_);
  const auto before = options_;
  auto after = std::make_shared<Options>(*before);
  after->set(name, value, Origin::call);
  options_ = after;
  try {
    if (name == "topology" || name == "nic-rate") make_topology();
  } catch (...) {
    options_ = before;
    throw;
  }
  plans_.clear();
  end_autotunings();
  note_options();
  if (name == "log") set_log_level(after->settings().log);
}

Decision CommState::decide(bool uniform, std::size_t bytes, Offer offer) {
  const std::lock_guard lock(mutex_);
  return decide_locked(uniform, bytes, offer);
}

Decision CommState::decide_locked(bool uniform, std::size_t bytes, Offer offer) {
  const Settings& settings = options_->settings();
  if (!settings.enable && offer.mpi) return {only(Algorithm::mpi), "mpi", "TAPA_ENABLE=0", 0};
  if (settings.plan) return forced(*settings.plan, offer);
  if (const auto winner = decided(uniform, bytes, offer)) return *winner;
  const auto ranked = ranked_locked(bytes, offer);
  if (ranked.empty()) return {{}, to_string(Choice{}), "the only candidate", 0};
  return {ranked[0].choice, to_string(ranked[0].choice), why(ranked), ranked[0].seconds};
}

/// The candidates as the model and measurements have them.
std::vector<Candidate> CommState::ranked_locked(std::size_t bytes, Offer offer) const {
  // MPI is a candidate only where it was measured: its time cannot be predicted.
  const bool mpi_measured = std::ranges::any_of(
      measurements_, [](const Measurement& m) { return m.choice.algorithm == Algorithm::mpi; });
  offer.mpi = offer.mpi && mpi_measured;
  auto ranked = rank_candidates(*topology_, rates_, measurements_, bytes, offer);
  // Where ranks share memory it comes first for all sizes, whatever the model says: short ways rely on that.
  if (one_choice_locked())
    std::ranges::stable_partition(ranked,
                                  [](const Candidate& c) { return c.choice.algorithm == Algorithm::memory; });
  return ranked;
}

bool CommState::one_choice() const {
  const std::lock_guard lock(mutex_);
  return one_choice_locked();
}

bool CommState::one_choice_locked() const {
  const Settings& settings = options_->settings();
  if (!settings.enable || settings.plan) return true;
  return shares_buffers_ && topology_->nodes() == 1 && measurements_.empty();
}

bool CommState::has_buffers(bool persistent) const {
  const std::lock_guard lock(mutex_);
  return shares_buffers_ && (!persistent || next_channel_ < ShmNode::kChannels);
}

ShmBuffers& CommState::buffers(bool persistent) {
  const std::lock_guard lock(mutex_);
  return *agreement_.node->buffers(persistent ? next_channel_++ : 0);
}

/// What carries out a call of this size, when nothing has to be agreed before.
std::optional<Algorithm> CommState::fast_choice(std::size_t bytes, std::optional<ProbeKey>& tried) {
  const Offer offer{true, shares_buffers_};
  const ProbeKey key = key_of(true, bytes, offer);
  const Autotuning* const autotuning =
      tries(key, bytes) ? &autotuning_of(key, bytes, offer).autotuning : nullptr;
  if (autotuning == nullptr || autotuning->complete())
    return uniform_plan_locked(bytes, offer)->choice.algorithm;
  if (autotuning->round_over()) return std::nullopt;
  tried = key;
  return autotuning->next().algorithm;
}

CommState::FastPath CommState::claim_fast(std::size_t bytes, bool in_place, bool dense) {
  const std::lock_guard lock(mutex_);
  if (!fast_ || !queue_.empty()) return {};
  FastPath way;
  if (bytes != fast_bytes_) {
    const auto algorithm = fast_choice(bytes, way.tried);
    if (algorithm != Algorithm::memory && algorithm != Algorithm::mpi) return {};
    fast_bytes_ = way.tried ? 0 : bytes;
    fast_mpi_ = algorithm == Algorithm::mpi;
  }
  way.mpi = fast_mpi_;
  if (way.mpi && !dense) return {};
  if (!way.mpi) {
    way.buffers = agreement_.node->buffers(0);
    const bool fits = dense && ShmExchange::fits(*way.buffers, bytes);
    if ((in_place && !fits) || !way.buffers->claim()) return {};
  }
  ++next_window_;  // as every operation takes one, whichever way it takes on each rank
  return way;
}

CommState::FastPath CommState::claim_fast_blocks(bool may_use_mpi) {
  const std::lock_guard lock(mutex_);
  if (!always_memory_ || !queue_.empty()) return {};
  FastPath way = blocks_way(may_use_mpi);
  if (way.buffers != nullptr && !way.buffers->claim()) return {};
  if (way.buffers != nullptr || way.mpi) ++next_window_;  // as in claim_fast()
  return way;
}

Decision CommState::forced(const Choice& choice, Offer offer) {
  const Settings& settings = options_->settings();
  if (choice.algorithm != Algorithm::mpi) {
    std::string reason = why_not(*topology_, choice);
    if (reason.empty() && choice.algorithm == Algorithm::memory && !offer.memory)
      reason = "the ranks share no memory for it";
    if (reason.empty()) return {choice, to_string(choice), "forced", 0};
    const std::string message = "plan " + to_string(choice) + " cannot be carried out: " + reason;
    if (settings.fallback == Fallback::error) throw CallError(MPI_ERR_ARG, message);
    if (settings.fallback == Fallback::print && !warned_fallback_ && rank_ == 0) {
      log_warn(message + "; " + (offer.mpi ? "MPI" : "linear") + " is used instead");
    }
    warned_fallback_ = true;
  }
  // Without MPI's own persistent collectives, linear is what MPI would do.
  const Choice instead = only(offer.mpi ? Algorithm::mpi : Algorithm::linear);
  return {instead, to_string(instead), choice.algorithm == Algorithm::mpi ? "forced" : "fallback", 0};
}

std::shared_ptr<PlanEntry> CommState::make_entry(const Decision& decision, const Counts& counts) {
  auto entry = std::make_shared<PlanEntry>();
  entry->choice = decision.choice;
  entry->text = decision.text;
  entry->why = decision.why;
  entry->predicted = decision.predicted;
  if (decision.choice.algorithm != Algorithm::mpi && decision.choice.algorithm != Algorithm::memory) {
    entry->plan = std::make_shared<const RankPlan>(plan_rank(*topology_, counts, decision.choice, rank_));
    entry->phases = phases_of(*topology_, decision.choice);
  }
  return entry;
}

std::shared_ptr<PlanEntry> CommState::uniform_plan(std::size_t bytes, Offer offer) {
  const std::lock_guard lock(mutex_);
  return uniform_plan_locked(bytes, offer);
}

std::shared_ptr<PlanEntry> CommState::uniform_plan_locked(std::size_t bytes, Offer offer) {
  const std::size_t key[4] = {bytes, offer.mpi ? 1U : 0U, offer.memory ? 1U : 0U, offer.overlapped ? 1U : 0U};
  if (auto entry = plans_.find("", key)) return entry;
  auto entry = make_entry(decide_locked(true, bytes, offer), Counts::uniform(size_, bytes));
  entry->bytes = bytes;
  plans_.insert("", key, entry);
  return entry;
}

std::shared_ptr<PlanEntry> CommState::plan_for(const Decision& decision, const Counts& counts,
                                               std::span<const std::size_t> key, std::size_t mean) {
  const std::lock_guard lock(mutex_);
  if (auto entry = plans_.find(decision.text, key)) return entry;
  auto entry = make_entry(decision, counts);
  entry->bytes = mean;
  plans_.insert(decision.text, key, entry);
  return entry;
}

std::unique_ptr<Executor> CommState::take_executor(PlanEntry& entry) {
  {
    const std::lock_guard lock(mutex_);
    if (!entry.idle.empty()) {
      auto executor = std::move(entry.idle.back());
      entry.idle.pop_back();
      return executor;
    }
  }
  return std::make_unique<Executor>(
      entry.plan, std::make_unique<NodeTransport>(agreement_.comm, agreement_.node.get(),
                                                  shm_limit(entry.choice), piece(), wait_policy()));
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

// Open MPI spreads only messages above its eager limit over several NICs, so long ones stay whole there.
bool CommState::striped(const Topology& topology) const {
  return !agreement_.one_rail && static_cast<int>(topology.nics.size()) > topology.nodes();
}

std::size_t CommState::piece() const {
  // Below the usual eager limit of MPI over TCP, 64 KiB: a rendezvous would stand in line behind other data.
  constexpr std::size_t over_tcp_piece = 32768;
  const std::size_t wanted = options()->settings().piece;
  if (wanted > 0) return wanted;
  const auto topology = this->topology();
  return over_tcp(*topology) && !striped(*topology) ? over_tcp_piece : MpiTransport::kIntMax;
}

void CommState::give_executor(PlanEntry& entry, std::unique_ptr<Executor> executor) {
  const std::lock_guard lock(mutex_);
  entry.idle.push_back(std::move(executor));
}

TagWindow CommState::next_tags(bool persistent) {
  const std::lock_guard lock(mutex_);
  const int count = std::min(kMaxWindow, (tag_limit_ - kMinWindows) / kMinWindows);
  const auto half = static_cast<std::uint64_t>(tag_limit_ / count / 2);
  const std::uint64_t window = persistent ? half + next_persistent_window_++ % half : next_window_++ % half;
  return {static_cast<int>(window) * count, count};
}

void CommState::enqueue(Operation* operation) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(operation);
}

void CommState::leave(Operation* operation) {
  const std::lock_guard lock(mutex_);
  std::erase(queue_, operation);
}

Operation* CommState::first_in_queue() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() ? nullptr : queue_.front();
}

// Only the operation whose turn it is gets here, so no lock is needed, nor may one be held while MPI is
// called. The sum is started at calls 0, 1, 2, 4, 8, ... and every 16th. Call 0 waits for its own sum, later
// ones for that of an earlier call, which is complete as a rule: what is agreed costs no round trip.
bool CommState::agreed_mean(std::size_t own_bytes, std::size_t& mean) {
  const auto start = [&] {
    mean_own_ = own_bytes;
    check_mpi(
        PMPI_Iallreduce(&mean_own_, &mean_total_, 1, MPI_UINT64_T, MPI_SUM, agreement_.comm, &mean_request_),
        "MPI_Iallreduce");
    mean_pending_ = true;
  };
  if (mean_calls_ == 0 && !mean_pending_) start();
  if (mean_pending_) {
    int complete = 0;
    check_mpi(PMPI_Test(&mean_request_, &complete, MPI_STATUS_IGNORE), "MPI_Iallreduce");
    if (complete == 0) return false;
    mean_pending_ = false;
    const auto blocks = static_cast<std::uint64_t>(size_) * static_cast<std::uint64_t>(size_);
    mean_ = size_class_of(static_cast<std::size_t>(mean_total_ / blocks));
  }
  mean = mean_;
  if (mean_calls_ > 0 && (std::has_single_bit(mean_calls_) || mean_calls_ % 16 == 0)) start();
  ++mean_calls_;
  return true;
}

void CommState::count_call(const char* function, const PlanEntry& entry, std::size_t bytes_per_pair,
                           std::size_t bytes, double seconds, const std::optional<Sample>& sample) {
  const std::lock_guard lock(mutex_);
  report_.count(function, bytes_per_pair, entry.text, bytes, seconds, sample);
}

bool CommState::sample_due(const char* function, const PlanEntry& entry, std::size_t bytes_per_pair) const {
  const std::lock_guard lock(mutex_);
  return report_.sample_due(function, bytes_per_pair, entry.text);
}

std::vector<ReportRow> CommState::report() const {
  const std::lock_guard lock(mutex_);
  return report_.rows(name_, rank_, size_);
}

}  // namespace tapa
