/// @file
/// What is told of calls that MPI has carried out: to the autotuner, the report and the explanation.
#pragma once

#include <algorithm>
#include <exception>
#include <string>

#include "comm/call_notes.hpp"
#include "report/report.hpp"
#include "route/decide.hpp"
#include "route/route.hpp"
#include "run/arguments.hpp"
#include "run/error.hpp"
#include "run/freed_handles.hpp"
#include "run/log.hpp"
#include "run/world.hpp"
#include "world/process_options.hpp"

namespace tapa {

/// Times a call, where somebody wants to know. Needs no destructor: MPI's error handler may jump over it.
class MpiNote {
 public:
  /// Both are borrowed.
  MpiNote(const Arguments& arguments, const Route& route)
      : arguments_(&arguments),
        route_(&route),
        wanted_(route.chosen ? route.noted : route.reason != reasons::wrong && report_is_wanted()) {
    if (!wanted_) return;
    freed_ = freed_communicators.load(std::memory_order_acquire);
    began_ = PMPI_Wtime();
  }
  /// The call has ended with this code, which is returned.
  int end(int code) const {
    if (!wanted_) return code;
    const double seconds = PMPI_Wtime() - began_;
    const bool good = code == MPI_SUCCESS;
    // An error handler may have freed the communicator.
    if (!good && (!route_->chosen || freed_ != freed_communicators.load(std::memory_order_acquire)))
      return code;
    try {
      route_->chosen ? tell(seconds, good) : keep(seconds);
    } catch (const std::exception& e) {  // the call itself was right
      if (good) log_warn("a call is missing in the report", e.what());
    }
    return code;
  }

 private:
  /// Of a call that was never ours.
  void keep(double seconds) const {
    const Arguments& a = *arguments_;
    const std::string name =
        is_mpis_own(a.comm) ? "no communicator of this library's" : name_for_report(a.comm);
    const int peers = peers_of(a.comm);
    const std::size_t bytes = bytes_of(a, a.sent(), peers);
    Report report;
    report.count(a.function, bytes / static_cast<std::size_t>(std::max(peers, 1)), {}, route_->reason, bytes,
                 seconds, std::nullopt);
    keep_rows(report.rows(name, rank_in(a.comm), size_of(a.comm)));
    if (route_->state != nullptr && route_->state->ready()) note_traffic(a, peers, *route_->state);
  }

  /// Of a call for which the ranks have chosen MPI.
  void tell(double seconds, bool good) const {
    CommState& state = *route_->state;
    const Rules& rules = state.rules();
    const bool reported = rules.report != Reporting::off;
    if (good && reported) {  // so its arguments were right
      if (!route_->uniform) note_traffic(*arguments_, state.size, state);
      state.parts()->report.next_blocking();
      if (rules.timeout <= 0) note_time(state, *arguments_, seconds);  // else ranks have met before
    }
    const auto parts = state.parts();
    if (route_->tried) parts->tuner.record(*route_->tried, seconds, route_->sent);
    if (!route_->uniform) parts->mean.note(std::nullopt, state.size);
    const std::size_t own = route_->sent / static_cast<std::size_t>(state.size);
    const std::size_t bytes = route_->bytes != 0 ? route_->bytes : own;
    const char* const why = reason(rules);
    const char* const function = arguments_->function;
    if (reported) parts->report.count(function, bytes, "mpi", why, route_->sent, seconds, std::nullopt);
    if (!rules.explain || state.rank != 0) return;
    const Decision decision{{Algorithm::mpi}, "mpi", route_->tried ? kProbed : why, 0};
    const auto entry =
        parts->chooser.plan_for("mpi", decision, Counts::uniform(state.size, bytes), {&bytes, 1}, bytes);
    if (!entry->explained.exchange(true)) print_line(explanation(*entry, function, state.size, seconds));
  }
  [[nodiscard]] const char* reason(const Rules& rules) const {
    if (!rules.enable) return reasons::disabled;
    if (rules.mpi_is_forced) return reasons::asked;
    if (route_->reason != nullptr) return route_->reason;
    return route_->tried ? reasons::tried : reasons::fastest;
  }

  const Arguments* arguments_;
  const Route* route_;
  bool wanted_;
  std::uint64_t freed_ = 0;
  double began_ = 0;
};

}  // namespace tapa
