// The life of a context: open, split, channels, describe, close.
#include "common/context.hpp"

#include <sched.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "common/agree.hpp"
#include "common/start_thread.hpp"
#include "exchange/struct_sizes.hpp"

namespace dit {
namespace {

/// Cores that this process may use.
int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int ranks_of_node(const Levels& levels) {
  return static_cast<int>(
      std::count_if(levels.of.begin(), levels.of.end(), [&](int level) { return level < levels.slow; }));
}

// A channel of a communicator of its own. Collective, in a step of together().
std::unique_ptr<Channel> make_channel(const AllToAllKind& kind, int index, MpiRanks& ranks,
                                      const PluginConfig& config, Levels& levels) {
  auto channel = std::make_unique<Channel>();
  channel->index = index;
  channel->comm = ranks.comm();
  channel->exchange = kind.make(channel->comm, config);
  meet(ranks);
  levels = channel->exchange->levels();
  return channel;
}

// What is wrong with this rank's options.
std::string fault_of(const AllToAllKind& kind, const std::string& config) {
  try {
    kind.read(config.c_str());
    return {};
  } catch (const ConfigError& e) {
    return e.what();
  }
}

}  // namespace

void check_progress_config(const PluginConfig& config) {
  const std::string progress = config.text("progress", "auto");
  if (progress != "auto" && progress != "thread" && progress != "calls")
    throw ConfigError("config has progress=" + progress + ", expected auto, thread or calls");
  static_cast<void>(config.number("poll_us", 1, 1));
}

std::unique_ptr<MpiContext> MpiContext::make(const AllToAllKind& kind, MpiSession& session, MPI_Comm comm,
                                             double timeout_seconds, const char* config) {
  std::unique_ptr<MpiContext> made;
  try {
    MpiRanks ranks(comm);
    together(ranks, [&] {
      made = std::make_unique<MpiContext>(kind, session, comm, ContextSettings{timeout_seconds, config});
    });
  } catch (...) {
    if (made == nullptr) MPI_Comm_free(&comm);
    throw;
  }
  return made;
}

MpiContext::MpiContext(const AllToAllKind& kind, MpiSession& session, MPI_Comm comm, ContextSettings settings)
    : kind_(kind),
      session_(session),
      comm_(comm),
      settings_(std::move(settings)),
      devices_(settings_.timeout_seconds) {
  totals_.struct_size = sizeof totals_;
  MpiRanks ranks(comm_);
  rank_ = ranks.rank();
  agree(ranks);
  const PluginConfig config = kind_.read(settings_.config.c_str());
  if (limited_) {
    arrivals_ = std::make_unique<Arrivals>(ranks.size());
    meet(ranks);
    arrivals_->begin(comm_);
  }
  channels_.push_back(make_channel(kind_, 0, ranks, config, levels_));
  started_.push_back(0);
  crowded_ = ranks_of_node(levels_) > cores();
  read_settings(config);
  session_.enter(*this);
  try {
    if (threaded_) thread_ = start_thread("progress", &MpiContext::run_thread, this);
  } catch (...) {
    session_.leave(*this, true);
    throw;
  }
}

MpiContext::~MpiContext() {
  stop();
  session_.leave(*this, failed_ == DIT_OK);
  free_communicators();
}

void MpiContext::free_communicators() {
  for (const auto& channel : channels_) {
    channel->exchange.reset();
    MPI_Comm_free(&channel->comm);
  }
}

// All ranks open a context, or none; a config that differs would make them exchange in different ways.
void MpiContext::agree(MpiRanks& ranks) {
  const std::string mine = fault_of(kind_, settings_.config);
  const unsigned long hash = std::hash<std::string>()(settings_.config);
  const unsigned long wrong = mine.empty() ? 0 : static_cast<unsigned long>(rank_) + 1;
  const unsigned long limited = settings_.timeout_seconds > 0 ? 1 : 0;
  const unsigned long unthreaded = session_.threads() ? 0 : 1;
  unsigned long most[5] = {hash, ~hash, wrong, limited, unthreaded};
  meet(ranks);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, most, 5, MPI_UNSIGNED_LONG, MPI_MAX, comm_), "MPI_Allreduce");
  if (!mine.empty()) throw PluginFailure(DIT_ERROR_ARGUMENT, mine);
  if (most[2] != 0)
    throw PluginFailure(DIT_ERROR_ARGUMENT, "rank " + std::to_string(most[2] - 1) +
                                                " passed wrong options, its own message says which");
  if (most[0] != ~most[1])
    throw PluginFailure(DIT_ERROR_ARGUMENT, "options.config is '" + settings_.config + "' on rank " +
                                                std::to_string(rank_) + ", expected the same on all ranks");
  limited_ = most[3] != 0;
  threaded_everywhere_ = most[4] == 0;
}

void MpiContext::read_settings(const PluginConfig& config) {
  const std::string progress = config.text("progress", "auto");
  if (progress == "thread" && !session_.threads())
    throw PluginFailure(DIT_ERROR_UNSUPPORTED, "config has progress=thread, but this is " + session_.text() +
                                                   ", expected MPI_THREAD_MULTIPLE for that");
  threaded_ = progress != "calls" && session_.threads();
  threaded_everywhere_ = threaded_everywhere_ && progress != "calls";
  longest_pause_us_ = config.number("poll_us", crowded_ ? kCrowdedPause : kDefaultPause, 1);
}

ContextPlace MpiContext::place() const {
  return {rank_, static_cast<int>(levels_.names.size()), levels_.of, static_cast<int>(channels_.size())};
}

// MPI may still write into memory of what failed, so such a context is only left, not taken down.
void MpiContext::close() {
  Lock lock(mutex_);
  if (failed_ != DIT_OK) return;
  try {
    for (const auto& request : under_way_) wait_for(*request, lock);
  } catch (const PluginFailure& failure) {  // also when it is only late
    failed_ = failure.status();
    throw;
  }
  if (arrivals_) settle_arrivals(lock);
  lock.unlock();
  close_devices();
}

// Ranks may close at different times, or not at all, which is no error here.
void MpiContext::settle_arrivals(Lock& lock) {
  const auto last = Clock::now() + kSettleTime;
  while (!arrivals_->settle() && Clock::now() < last) pause_in_wait(lock);
}

bool MpiContext::failed() const {
  const Lock lock(mutex_);
  return failed_ != DIT_OK;
}

void MpiContext::abandon() noexcept {
  stop();
  session_.leave(*this, false);
}

void MpiContext::stop() noexcept {
  {
    const Lock lock(mutex_);
    stopped_ = true;
    for (const auto& channel : channels_) channel->in_line.notify_all();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& channel : channels_) {
    if (!channel->starter.joinable()) continue;
    Lock lock(mutex_);
    const bool stuck = channel->starting;
    lock.unlock();
    if (stuck) {
      channel->starter.detach();  // it waits inside MPI for a rank that will not come
    } else {
      channel->starter.join();
    }
  }
}

// Other collective calls of the communicator come after the starts that the program has made before.
void MpiContext::wait_for_starts() {
  Lock lock(mutex_);
  const auto unstarted = [](const auto& request) {
    return !request->started && request->channel->index == 0;
  };
  while (failed_ == DIT_OK && std::any_of(under_way_.begin(), under_way_.end(), unstarted))
    pause_in_wait(lock);
}

int MpiContext::open_channel() {
  wait_for_starts();
  require_good();
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm_, &comm), "MPI_Comm_dup");
  std::unique_ptr<Channel> channel;
  try {
    MpiRanks ranks(comm);
    together(ranks, [&] {
      Levels levels;
      channel = make_channel(kind_, static_cast<int>(channels_.size()), ranks,
                             kind_.read(settings_.config.c_str()), levels);
      const Lock lock(mutex_);
      channels_.reserve(channels_.size() + 1);
      started_.reserve(channels_.size() + 1);
    });
  } catch (...) {
    channel.reset();
    MPI_Comm_free(&comm);
    throw;
  }
  const Lock lock(mutex_);
  channels_.push_back(std::move(channel));
  started_.push_back(0);
  return channels_.back()->index;
}

std::unique_ptr<MpiContext> MpiContext::split(int colour, int key) {
  wait_for_starts();
  require_good();
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(comm_, colour < 0 ? MPI_UNDEFINED : colour, key, &part), "MPI_Comm_split");
  if (part == MPI_COMM_NULL) return nullptr;
  return make(kind_, session_, part, settings_.timeout_seconds, settings_.config.c_str());
}

void MpiContext::totals(dit_exchange_totals& totals) const {
  const Lock lock(mutex_);
  give(totals_, totals);
}

std::string MpiContext::describe() const {
  std::string text = std::string(kind_.name) + ": rank " + std::to_string(rank_) + " of " +
                     std::to_string(size()) + "; " + words_of(levels_);
  text += "; " + channels_.front()->exchange->text() + "; " + session_.text() + "; ";
  if (devices_.is_open()) text += devices_.text() + "; ";
  if (crowded_) text += "waits asleep, as there are more ranks than cores; ";
  if (threaded_)
    text += "progress by a thread that pauses at most " +
            std::to_string(static_cast<long>(longest_pause_us_)) + " us";
  else if (session_.threads())
    text += "progress only inside start, test and wait (progress=calls)";
  else
    text += "progress only inside start, test and wait: a thread needs MPI_THREAD_MULTIPLE";
  return text;
}

}  // namespace dit
