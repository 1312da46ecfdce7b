#include "comm/guest.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <mutex>
#include <utility>

#include "comm/comm_state.hpp"
#include "comm/duplications.hpp"
#include "comm/learnt_store.hpp"
#include "comm/report_text.hpp"
#include "comm/setup_allowance.hpp"
#include "comm/setup_cost.hpp"
#include "run/device_memory.hpp"
#include "run/log.hpp"
#include "run/process_age.hpp"
#include "run/progress.hpp"
#include "run/world.hpp"

namespace tapa {

namespace {

std::atomic<bool> guest{false};
std::atomic<bool> at_once{false};

std::atomic<double> beginning{0};

std::mutex setups_mutex;  // of the three
SetupCost cost;
SetupTotal total;
SetupAllowance allowance;

// What rank 0 tells the ranks of a new communicator. The magic number shows that all mean the same.
enum class Verdict : std::uint64_t { wait = 0x746170610300, set_up, never };

/// Whether an option asks for the library from the first call on: to be looked at, or a plan by name.
bool eager(const Options& options) {
  const Settings& s = options.settings();
  return s.plan || s.report == Reporting::on || s.explain || s.timeout > 0 || s.check >= Check::counts ||
         !s.tuning.empty();
}

struct Word {
  Verdict verdict;
  double
      spent;  // set_up: seconds of all-to-alls so far, for what probes may cost; below 0: they are asked for
};

void warn_once(const std::string& message) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) log_warn(message + "; all-to-all stays with MPI");
}

bool pays_for_persistent(int ranks, bool hopeless) {
  const double age = process_age();
  const std::lock_guard lock(setups_mutex);
  return allowance.allows(cost.expected(ranks), age, hopeless);
}

/// On every rank, as each may be rank 0 of the next communicator.
void charge_persistent(int ranks) {
  const std::lock_guard lock(setups_mutex);
  allowance.spend(cost.expected(ranks));
}

/// Whether there is no reason to set up yet, whatever the options are: as a rule. Reading them takes longer
/// than a short call.
bool waits_on(const Newcomer& newcomer, int ranks, double account) {
  return !sets_up_at_once() && !talks_early(ranks) && !newcomer.worth(setup_seconds(ranks), false, account);
}

/// How much of the account a set-up takes that this communicator's calls do not pay for alone.
double taken_from_account(const Newcomer& newcomer, int ranks, bool hopeless, double account) {
  const double missing = newcomer.price(setup_seconds(ranks), hopeless) - newcomer.spent();
  return std::clamp(missing, 0.0, account);
}

/// Rank 0's.
Word judge(const Newcomer& newcomer, int ranks, bool persistent) {
  if (may_be_duplicating()) return {Verdict::wait, newcomer.spent()};
  const double account = account_left(ranks);
  if (!persistent && waits_on(newcomer, ranks, account)) return {Verdict::wait, newcomer.spent()};
  try {
    const Options options = environment_options();
    if (!options.settings().enable) return {Verdict::never, 0};
    if (options.settings().gpu == GpuBuffers::mpi && gpu_in_use()) {
      warn_once(gpu_message(0, "TAPA_GPU=mpi"));
      return {Verdict::never, 0};
    }
    if (eager(options)) return {Verdict::set_up, -1};
    const LearntAdvice learnt = learnt_advice(options, ranks);
    if (learnt.at_once || (persistent && pays_for_persistent(ranks, learnt.hopeless)))
      return {Verdict::set_up, newcomer.spent()};
    if (!newcomer.worth(setup_seconds(ranks), learnt.hopeless, account))
      return {Verdict::wait, newcomer.spent()};
    return {Verdict::set_up,
            newcomer.spent() + taken_from_account(newcomer, ranks, learnt.hopeless, account)};
  } catch (const CallError& e) {
    warn_once(e.what());
    return {Verdict::never, 0};
  }
}

/// Waits in a way that can be told: so no blocking collective, on any rank, whether it watches or not, as
/// blocking and nonblocking calls do not match.
void wait_told(MPI_Request request, const char* whom) {
  const double began = PMPI_Wtime();
  double next = own_timeout();
  if (next <= 0) {
    check_mpi(PMPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    return;
  }
  for (int complete = 0; complete == 0;) {
    check_mpi(PMPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    const double age = PMPI_Wtime() - began;
    if (complete != 0 || age < next) continue;
    next = 2 * age;
    char text[128];
    std::snprintf(text, sizeof text,
                  "first all-to-all of a communicator unfinished after %.1f s: waits for %s", age, whom);
    print_line(text);
  }
}

/// Rank 0 tells all. Where no rank of the job has a time limit, which MPI_Init has agreed on, nobody would
/// tell of a wait, and the blocking call takes a fraction of the time.
Word hear_verdict(MPI_Comm user, Word word) {
  if (!sets_up_at_once()) {
    check_mpi(PMPI_Bcast(&word, sizeof word, MPI_BYTE, 0, user), "MPI_Bcast");
    return word;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(PMPI_Ibcast(&word, sizeof word, MPI_BYTE, 0, user, &request), "MPI_Ibcast");
  wait_told(request, "rank 0");
  return word;
}

/// The same where a rank may have a call that MPI cannot carry out (`needed`): then the set-up does not wait.
Word agree_with_needs(MPI_Comm user, bool first, Word word, bool needed) {
  constexpr auto verdict = [](Verdict v) { return static_cast<double>(static_cast<std::uint64_t>(v)); };
  std::array<double, 2> most{needed ? verdict(Verdict::set_up) : 0, std::numeric_limits<double>::lowest()};
  if (first) most = {std::max(most[0], verdict(word.verdict)), word.spent};
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(PMPI_Iallreduce(MPI_IN_PLACE, most.data(), 2, MPI_DOUBLE, MPI_MAX, user, &request),
            "MPI_Iallreduce");
  wait_told(request, "other ranks");
  return {static_cast<Verdict>(static_cast<std::uint64_t>(most[0])), most[1]};
}

/// `earlier`: of all-to-alls of earlier runs, whose account paid for it.
void tell_setup(int ranks, double spent, double earlier) {
  char text[160];
  const int length =
      std::snprintf(text, sizeof text, "a communicator was set up in %.2f ms, after %.1f ms of all-to-alls",
                    setup_seconds(ranks) * 1e3, spent * 1e3);
  if (earlier > 0) {
    std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length),
                  " and %.1f ms in earlier runs", earlier * 1e3);
  }
  log_info(text);
}

}  // namespace

void become_guest(bool sets_up_at_once) {
  begin_clock();
  at_once = sets_up_at_once;
  guest = true;
}

bool sets_up_at_once() {
  return at_once.load(std::memory_order_relaxed);
}

bool is_guest() {
  return guest.load(std::memory_order_relaxed);
}

double setup_seconds(int ranks) {
  const std::lock_guard lock(setups_mutex);
  return cost.expected(ranks);
}

void note_setup_seconds(int ranks, double seconds) {
  const std::lock_guard lock(setups_mutex);
  cost.note(ranks, seconds);
  ++total.setups;
  total.seconds += seconds;
}

SetupTotal setup_total() {
  const std::lock_guard lock(setups_mutex);
  return total;
}

bool report_is_wanted() {
  static const bool wanted = [] {
    try {
      return environment_options().settings().report != Reporting::off;
    } catch (const CallError&) {
      return false;
    }
  }();
  return wanted;
}

std::string name_here(std::string_view function) {
  return name_in_program(function, is_guest(), MPI_VERSION < 4);
}

std::string name_for_report(MPI_Comm comm) {
  char text[MPI_MAX_OBJECT_NAME] = {};
  int length = 0;
  check_mpi(PMPI_Comm_get_name(comm, text, &length), "MPI_Comm_get_name");
  if (length > 0 || !report_is_wanted()) return {text, static_cast<std::size_t>(length)};
  int size = 0;
  check_mpi(PMPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return describe_ranks(ranks_in_world(comm), size);
}

void begin_clock() {
  double none = 0;
  beginning.compare_exchange_strong(none, PMPI_Wtime());
}

double seconds_since_beginning() {
  return PMPI_Wtime() - beginning;
}

bool CommState::welcome(MPI_Comm user, std::optional<std::uint64_t> nanoseconds, bool needed) noexcept {
  if (ready()) return true;
  if (given_up_) return false;
  const bool asks = newcomer_.asks();
  newcomer_.count(nanoseconds.value_or(0));
  if (nanoseconds && !asks) return false;
  try {
    // Others may not have the drop-in: ranks that were spawned do not inherit it.
    if (!std::exchange(looked_, true) && !is_of_this_world(user)) {
      given_up_ = true;
      return false;
    }
    const Word own = rank_ == 0 ? judge(newcomer_, size_, !nanoseconds) : Word{Verdict::wait, 0};
    const Word word = nanoseconds ? hear_verdict(user, own) : agree_with_needs(user, rank_ == 0, own, needed);
    switch (word.verdict) {
      case Verdict::wait:
        newcomer_.wait_on();
        keep_wait();  // the program may never free it
        return false;
      case Verdict::set_up:
        early_ = nanoseconds && word.spent == 0;
        set_up(user, true);
        Progress::instance().settle();
        if (!nanoseconds) charge_persistent(size_);
        keep_wait();
        if (rank_ == 0) {
          const double earlier = word.spent - newcomer_.spent();  // as judge() has added it
          if (earlier > 0) draw_account(size_, earlier);
          tell_setup(size_, newcomer_.spent(), earlier);
        }
        if (word.spent >= 0) parts()->tuner.limit(word.spent);
        return true;
      case Verdict::never:
        given_up_ = true;
        return false;
    }
    throw CallError(MPI_ERR_OTHER, "rank 0 of a communicator speaks another version of libtapa");
  } catch (const SetupDeferred& e) {  // all ranks know
    newcomer_.wait_on();
    if (rank_ == 0) log_info(std::string("a communicator is not set up yet: ") + e.what());
    return false;
  } catch (const SetupError& e) {  // all ranks know
    given_up_ = true;
    if (rank_ == 0) warn_once(e.what());
    return false;
  } catch (const std::exception& e) {  // this rank may be the only one that knows: nobody could go on
    log_error(std::string("the ranks of a communicator could not agree: ") + e.what());
    PMPI_Abort(user, 1);
    return false;
  }
}

}  // namespace tapa
