#include "series.hpp"

#include <algorithm>
#include <cctype>

namespace tapa::preload {

namespace {

const char* name_of(Family family) {
  switch (family) {
    case Family::open_mpi:
      return "Open MPI";
    case Family::mpich:
      return "MPICH";
    case Family::standard:
      return "the standard's interface (libmpi_abi)";
    default:
      return "it";
  }
}

/// The number at the beginning of `text`, which loses it; 0 when there is none.
int take_number(std::string_view& text) {
  int value = 0;
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0 && value < 100000) {
    value = 10 * value + (text.front() - '0');
    text.remove_prefix(1);
  }
  return value;
}

/// The first MAJOR.MINOR in `text`.
MpiSeries numbered(Family family, std::string_view text) {
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  MpiSeries series{family, take_number(text), 0};
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    series.minor = take_number(text);
  }
  return series;
}

bool shares_interface(const MpiSeries& built, const MpiSeries& running) {
  if (running.family == Family::relative || running.major == built.major) return true;
  const bool open_mpi = built.family == Family::open_mpi;
  const int oldest = open_mpi ? 4 : 3;
  const int newest = 5;
  return oldest <= built.major && built.major < running.major && running.major <= newest;
}

}  // namespace

MpiSeries parse_library_version(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  const auto begins = [&](std::string_view word) { return text.substr(0, word.size()) == word; };
  if (begins("Open MPI")) return numbered(Family::open_mpi, text);
  if (begins("MPICH")) return numbered(Family::mpich, text);
  if (text.find("CRAY MPICH") != text.npos) return {Family::relative, 0, 0};  // behind "MPI VERSION    : "
  for (const auto* word : {"Intel(R) MPI", "MVAPICH"}) {
    if (begins(word)) return {Family::relative, 0, 0};
  }
  return {};
}

Judgement judge_mpi(const MpiSeries& built, std::string_view running, bool standard) {
  const auto found = parse_library_version(running);
  const auto runs = running.substr(0, running.find_first_of("\n,"));
  const bool open_mpi = found.family == Family::open_mpi;
  const bool served = standard || (built.family != Family::standard && found.family != Family::unknown &&
                                   open_mpi == (built.family == Family::open_mpi));
  Line why = "built for ";
  why += name_of(built.family);
  if (!served) {
    why.add(", but this program runs ", runs, "; it needs the drop-in that was built for ",
            name_of(found.family == Family::relative ? Family::mpich : found.family));
    return {Fit::foreign, why};
  }
  if (standard) {
    if (built.family == Family::standard) return {Fit::same, {}};
    why.add(", this program runs ", runs, " by ", name_of(Family::standard),
            ", for which TAPA_MPI_ABI=ON builds");
    return {Fit::compatible, why};
  }
  if (found == built) return {Fit::same, {}};
  why.add(" ", built.major, ".", built.minor, ", this program runs ", runs, ", whose binary interface ");
  const bool same = shares_interface(built, found);
  return {same ? Fit::compatible : Fit::refused, why += same ? "is the same" : "may differ"};
}

}  // namespace tapa::preload
