#include "carry/mpi_note.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "comm/call_notes.hpp"
#include "comm/names.hpp"
#include "report/report.hpp"
#include "route/decide.hpp"
#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/log.hpp"
#include "run/world.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

/// A call that was never ours. `state`: where there is one.
void keep(const Arguments& arguments, CommState* state, const char* reason, double seconds) {
  const MPI_Comm comm = arguments.comm;
  const std::string name = is_mpis_own(comm) ? "no communicator of this library's" : name_for_report(comm);
  const int peers = peers_of(comm);
  const std::size_t bytes = bytes_of(arguments, arguments.sent(), peers);
  Report report;
  report.count(arguments.function, bytes / static_cast<std::size_t>(std::max(peers, 1)), {}, reason, bytes,
               seconds, std::nullopt);
  keep_rows(report.rows(name, rank_in(comm), size_of(comm)));
  if (state != nullptr && state->ready()) note_traffic(arguments, peers, *state);
}

/// Why MPI has carried a call out that the ranks could have.
const char* reason_of(const Route& route, const Rules& rules) {
  if (!rules.settings().enable) return reasons::disabled;
  if (rules.mpi_is_forced) return reasons::asked;
  if (route.reason != nullptr) return route.reason;
  return route.tried ? reasons::tried : reasons::fastest;
}

/// A call that the ranks have chosen MPI for.
void tell(const Route& route, const char* function, double seconds) {
  CommState& state = *route.state;
  const Rules& rules = state.rules();
  const auto parts = state.parts();
  if (route.tried) parts->tuner.record(route.key, seconds, route.sent);
  if (!route.uniform) parts->mean.note(std::nullopt, state.size());
  const std::size_t own = route.sent / static_cast<std::size_t>(state.size());
  const std::size_t bytes = route.bytes != 0 ? route.bytes : own;
  const char* const reason = reason_of(route, rules);
  if (rules.report != Reporting::off)
    parts->report.count(function, bytes, "mpi", reason, route.sent, seconds, std::nullopt);
  if (!rules.explain || state.rank() != 0) return;
  const Decision decision{{Algorithm::mpi}, "mpi", route.tried ? kProbed : reason, 0};
  const auto entry =
      parts->chooser.plan_for("mpi", decision, Counts::uniform(state.size(), bytes), {&bytes, 1}, bytes);
  if (!entry->explained.exchange(true)) print_line(explanation(*entry, function, state.size(), seconds));
}

/// The same, for what the ranks compare. Its arguments were right.
void note(const Route& route, const Arguments& arguments, double seconds) {
  CommState& state = *route.state;
  if (state.rules().report == Reporting::off) return;
  if (!route.uniform) note_traffic(arguments, state.size(), state);
  state.parts()->report.next_blocking();
  if (state.rules().timeout <= 0) note_time(state, arguments, seconds);  // else ranks have met before
}

}  // namespace

MpiNote::MpiNote(const Arguments& arguments, const Route& route)
    : arguments_(&arguments),
      route_(&route),
      wanted_(route.chosen ? route.noted : route.reason != reasons::wrong && report_is_wanted()) {
  if (!wanted_) return;
  freed_ = freed_communicators.load(std::memory_order_acquire);
  began_ = PMPI_Wtime();
}

int MpiNote::end(int code) {
  if (!wanted_) return code;
  const double seconds = PMPI_Wtime() - began_;
  if (code != MPI_SUCCESS) {
    // An error handler may have freed the communicator.
    if (!route_->chosen || freed_ != freed_communicators.load(std::memory_order_acquire)) return code;
  }
  try {
    if (!route_->chosen) {
      keep(*arguments_, route_->state, route_->reason, seconds);
      return code;
    }
    if (code == MPI_SUCCESS) note(*route_, *arguments_, seconds);
    tell(*route_, arguments_->function, seconds);
  } catch (const std::exception& e) {  // the call itself was right
    if (code == MPI_SUCCESS) log_warn("a call is missing in the report", e.what());
  }
  return code;
}

}  // namespace tapa
