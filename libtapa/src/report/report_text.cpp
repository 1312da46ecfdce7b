#include "report/report_text.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <tuple>

namespace tapa {

namespace {

// Fewer samples make no ratio: one may have met a rank that lost its core.
constexpr std::size_t kEnough = 3;

[[gnu::format(printf, 1, 2)]] std::string print(const char* format, ...) {
  std::array<char, 512> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  return text.data();
}

unsigned long long number(std::uint64_t value) {
  return value;
}

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

bool is_blocking(const std::string& function) {
  return function.find("_I") == std::string::npos && function.find("_init") == std::string::npos;
}

double median(const std::vector<Sample>& samples, double Sample::*side) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.*side);
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// What all rows come to.
struct Sums {
  std::uint64_t calls = 0;
  std::uint64_t taken = 0;
  std::uint64_t timed = 0;
  std::map<std::string, std::uint64_t> forwarded;  // calls by reason
  double blocking = 0;                             // seconds
  double other = 0;
  double compared = 0;  // seconds of calls whose kind has enough samples
  double tapa = 0;      // what these should take
  double mpi = 0;       // and with MPI
  std::size_t samples = 0;
};

Sums sum(const std::vector<ReportRow>& rows) {
  Sums s;
  for (const ReportRow& row : rows) {
    s.calls += row.calls;
    s.timed += row.calls - row.untimed;
    (is_blocking(row.function) ? s.blocking : s.other) += row.seconds;
    if (!row.forwarded.empty()) {
      s.forwarded[row.forwarded] += row.calls;
      continue;
    }
    s.taken += row.calls;
    if (row.samples.size() < kEnough) continue;
    const auto calls = static_cast<double>(row.calls);
    s.compared += row.seconds;
    s.tapa += calls * median(row.samples, &Sample::tapa);
    s.mpi += calls * median(row.samples, &Sample::mpi);
    s.samples += row.samples.size();
  }
  return s;
}

std::string forwarded_line(const Sums& s) {
  const std::uint64_t forwarded = s.calls - s.taken;
  std::string line = print("  forwarded   %llu (%.1f %%)", number(forwarded),
                           percent(static_cast<double>(forwarded), static_cast<double>(s.calls)));
  std::vector<std::pair<std::uint64_t, std::string>> reasons;
  for (const auto& [reason, calls] : s.forwarded) reasons.emplace_back(calls, reason);
  std::ranges::stable_sort(reasons, [](const auto& a, const auto& b) { return a.first > b.first; });
  const char* separator = ": ";
  for (const auto& [calls, reason] : reasons) {
    line += separator + std::to_string(calls) + " (" + reason + ")";
    separator = ", ";
  }
  return line + "\n";
}

/// Of seconds that are saved, or lost below zero.
std::string gain(double saved) {
  return print("about %.3f s %s", saved < 0 ? -saved : saved, saved < 0 ? "lost" : "saved");
}

std::string comparison_line(const Sums& s) {
  if (s.taken == 0) return "";
  if (s.samples == 0) {
    return print(
        "  against MPI not estimated: no kind of call has %zu samples, made in %llu calls of short blocks, "
        "%llu of long ones\n",
        kEnough, number(kEnough * sample_step(0)), number(kEnough * sample_step(4096)));
  }
  return print("  against MPI %s, %.2fx as fast, from %zu samples of calls that took %.0f %% of the time\n",
               gain(s.mpi - s.tapa).c_str(), s.mpi / std::max(s.tapa, 1e-9), s.samples,
               percent(s.compared, s.blocking + s.other));
}

std::string levels_line(const std::vector<LevelBytes>& levels) {
  std::string text;
  for (const LevelBytes& level : levels) {
    if (level.bytes > 0)
      text += print("%s%.3f MB by %s", text.empty() ? "" : ", ", 1e-6 * level.bytes, level.name.c_str());
  }
  return text.empty() ? "" : "  sent        " + text + "\n";
}

std::string order_lines(const OrderAdvice& advice) {
  const LaunchOptions options = launch_options(advice);
  const std::string mpich = options.mpich.empty() ? "" : "mpiexec " + options.mpich + " (MPICH, Intel MPI), ";
  return print(
             "  rank order  %.3f MB into, or out of, the busiest node; %.3f MB with %s: %.3f s less at its "
             "NICs\n",
             1e-6 * advice.now.bytes, 1e-6 * advice.then.bytes,
             advice.order == RankOrder::consecutive ? "consecutive ranks on each node"
                                                    : "ranks on the nodes in turn",
             advice.now.seconds - advice.then.seconds) +
         "              mpirun " + options.open_mpi + " (Open MPI), " + mpich + "srun " + options.slurm +
         "\n";
}

/// Who waited for whom, where enough calls tell.
std::string waiting_lines(const Lateness& lateness) {
  constexpr std::size_t enough = 8;
  constexpr std::size_t most = 8;
  if (lateness.calls < enough) return "";
  const double share = percent(lateness.waiting, lateness.waiting + lateness.transfer);
  std::string text =
      print("  waiting     for late ranks %.0f %% of the time in blocking calls, transfer %.0f %%,", share,
            100 - share) +
      print(" by %zu calls that all ranks timed\n", lateness.calls);
  if (share < 10) return text;  // it hardly matters who is late
  for (std::size_t i = 0; i < std::min(most, lateness.late.size()); ++i) {
    const Lateness::Rank& late = lateness.late[i];
    text += print("  late        rank %d was the last in %zu of %zu calls in which ranks waited,", late.rank,
                  late.last, late.calls) +
            print(" %.3g ms behind the others\n", 1e3 * late.waited);
  }
  if (lateness.late.size() > most)
    text += print("              and %zu ranks more\n", lateness.late.size() - most);
  return text;
}

std::string setup_line(const Sums& s, const ReportHead& head) {
  const std::string with = s.samples == 0 ? "" : ": with it " + gain(s.mpi - s.tapa - head.setup_seconds);
  return print("  set-up      %d communicator%s, %.1f ms%s\n", head.setups, head.setups == 1 ? "" : "s",
               1e3 * head.setup_seconds, with.c_str());
}

std::string format_head(const std::vector<ReportRow>& rows, const ReportHead& head) {
  const Sums s = sum(rows);
  if (s.calls == 0) return print("tapa report: no all-to-all on rank 0 of %d\n", head.ranks);
  std::string text =
      print("tapa report: %llu all-to-alls, as rank 0 of %d saw them\n", number(s.calls), head.ranks);
  text += print("  taken       %llu (%.1f %%)\n", number(s.taken),
                percent(static_cast<double>(s.taken), static_cast<double>(s.calls)));
  text += forwarded_line(s);
  text += print("  time        %.3f s in blocking calls, %.1f %% of the %.3f s since %s\n", s.blocking,
                percent(s.blocking, head.seconds), head.seconds, head.since.c_str());
  if (s.timed < s.calls)
    text += print("              by %llu of the calls, of each kind the first 64 and then one in 2 to 8\n",
                  number(s.timed));
  if (s.other > 0) text += print("              %.3f s from start to completion of the others\n", s.other);
  text += waiting_lines(head.lateness);
  text += levels_line(head.levels);
  if (head.order) text += order_lines(*head.order);
  text += comparison_line(s);
  if (head.setups > 0) text += setup_line(s, head);
  if (!head.results.empty()) text += "  cache       " + head.results + "\n";
  return text;
}

std::string title_lines(const ReportRow& row) {
  const bool several = row.communicator.find('*') != std::string::npos;
  return print("tapa report: %s, %d %s%s, as rank 0 saw it\n", row.communicator.substr(0, 100).c_str(),
               row.ranks, row.ranks == 1 ? "rank" : "ranks", several ? ", several communicators" : "") +
         print("  %-24s %10s %9s %14s %10s %8s %10s %10s %6s  %s\n", "function", "bytes/pair", "calls",
               "bytes sent", "mean us", "samples*", "tapa us*", "mpi us*", "ratio*", "plan");
}

std::string line_of(const ReportRow& row) {
  const std::size_t samples = row.samples.size();
  std::string line =
      print("  %-24s %10zu %9llu %14llu %10.1f ", row.function.c_str(), row.size_class, number(row.calls),
            number(row.bytes), 1e6 * row.seconds / static_cast<double>(row.calls));
  if (samples == 0) {
    line += print("%8s %10s %10s %6s  ", "-", "-", "-", "-");
  } else {
    const double tapa = median(row.samples, &Sample::tapa);
    const double mpi = median(row.samples, &Sample::mpi);
    const std::string ratio = samples < kEnough ? "-" : print("%.2f", mpi / std::max(tapa, 1e-9));
    line += print("%8zu %10.1f %10.1f %6s  ", samples, 1e6 * tapa, 1e6 * mpi, ratio.c_str());
  }
  return line + (row.forwarded.empty() ? row.plan : "MPI: " + row.forwarded) + "\n";
}

}  // namespace

std::string name_in_program(std::string_view function, bool drop_in, bool mpix) {
  constexpr std::string_view own = "TAPA_";
  if (!drop_in || !function.starts_with(own)) return std::string(function);
  const bool persistent = function.find("_init") != std::string_view::npos;
  return std::string(persistent && mpix ? "MPIX_" : "MPI_") + std::string(function.substr(own.size()));
}

std::string describe_ranks(std::span<const int> world, int size) {
  constexpr std::size_t most = 8;
  if (world.empty()) return "no ranks";
  const int step = world.size() > 1 ? world[1] - world[0] : 1;
  bool even = true;
  for (std::size_t i = 1; i < world.size(); ++i) even = even && world[i] - world[i - 1] == step;
  const std::string first = std::to_string(world.front());
  const std::string last = std::to_string(world.back());
  if (even && step == 1 && world.front() == 0 && static_cast<int>(world.size()) == size)
    return "all ranks of MPI_COMM_WORLD";
  std::string text = world.size() == 1 ? "rank " + first : "ranks ";
  if (even && step == 1 && world.size() > 1) {
    text += first + "-" + last;
  } else if (even && world.size() > 3) {
    text += first + ", " + std::to_string(world[1]) + ", ... " + last;
  } else if (world.size() > 1) {
    for (std::size_t i = 0; i < std::min(most, world.size()); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(world[i]);
    if (world.size() > most) text += ", ...";
  }
  return text + " of MPI_COMM_WORLD";
}

std::string format_report(const std::vector<ReportRow>& rows, const std::optional<ReportHead>& head) {
  ReportRows merged;
  for (const ReportRow& row : rows) merged.add(row);
  std::vector<ReportRow> shown;
  std::ranges::copy_if(merged.rows(), std::back_inserter(shown),
                       [](const ReportRow& row) { return row.rank == 0; });
  std::ranges::stable_sort(shown, [](const ReportRow& a, const ReportRow& b) {
    const auto key = [](const ReportRow& r) {
      return std::tuple(-r.ranks, std::tie(r.communicator, r.function, r.size_class, r.forwarded, r.plan));
    };
    return key(a) < key(b);
  });
  std::string text = head ? format_head(merged.rows(), *head) : "";
  const ReportRow* table = nullptr;
  bool sampled = false;
  for (const ReportRow& row : shown) {
    if (table == nullptr || table->communicator != row.communicator || table->ranks != row.ranks)
      text += title_lines(row);
    table = &row;
    text += line_of(row);
    sampled = sampled || !row.samples.empty();
  }
  if (sampled) {
    text += print(
        "  * medians of calls beside which MPI's own all-to-all was run (of a kind, below 4 KiB: the %lluth, "
        "2, 3, 4, 8, ... times that; longer blocks: the %lluth, ...); ratios from %zu samples on\n",
        number(sample_step(0)), number(sample_step(4096)), kEnough);
  }
  return text;
}

}  // namespace tapa
