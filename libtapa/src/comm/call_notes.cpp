#include "comm/call_notes.hpp"

#include <exception>
#include <utility>

#include "comm/device_calls.hpp"
#include "comm/registry.hpp"
#include "plan/choose.hpp"
#include "report/call_samples.hpp"
#include "report/report_text.hpp"
#include "run/error.hpp"
#include "run/locked.hpp"
#include "run/world.hpp"
#include "world/drop_in.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

/// What cannot be counted is missing in the report, and nowhere else: ranks stay in step.
template <class Body>
void quietly(const Body& body) noexcept {
  try {
    body();
  } catch (const std::exception&) {
    return;
  }
}

/// Of communicators that have ended.
struct KeptTraffic : Traffic {};

void add_traffic(const Membership& membership, const CommParts& parts, Traffic& to) {
  const double each = bytes_to_each(parts.report.rows({}, 0, static_cast<int>(membership.in_world.size())));
  const std::vector<double>& bytes = parts.traffic.bytes();
  const std::vector<GpuBytes>& of_gpus = parts.traffic.of_gpus();
  for (std::size_t member = 0; member < membership.in_world.size(); ++member) {
    const auto rank = static_cast<std::size_t>(membership.in_world[member]);
    to.add(rank, each + (member < bytes.size() ? bytes[member] : 0));
    if (member >= of_gpus.size()) continue;
    to.add_of_gpus(rank, of_gpus[member].reached, true);
    to.add_of_gpus(rank, of_gpus[member].unreached, false);
  }
}

}  // namespace

std::size_t bytes_of(const Arguments& a, const Side& side, int peers) {
  std::size_t bytes = 0;
  for (int peer = 0; peer < a.blocks(side, peers); ++peer) {
    if (side.type_of(peer) == MPI_DATATYPE_NULL) continue;
    bytes += static_cast<std::size_t>(side.count_of(peer)) * type_info(side.type_of(peer)).size;
  }
  return bytes;
}

void note_time(CommState& state, const CommParts& parts, std::uint64_t bytes, double seconds) noexcept {
  // Other worlds than the process's give their communicators the same numbers.
  if (state.device_calls() != nullptr || state.membership.world != World::of_process()) return;
  quietly([&] {
    keep_sample({state.membership.id(), parts.report.blocking_calls(), static_cast<std::uint64_t>(state.size),
                 bytes, seconds});
  });
}

void note_time(CommState& state, const Arguments& a, double seconds) noexcept {
  quietly([&] {
    const std::uint64_t call = state.parts()->report.blocking_calls();
    if (!wants_sample(state.membership.id(), call)) return;
    // It may go on without those that send it nothing.
    for (int block = 0; block < a.blocks(a.recv, state.size); ++block) {
      const bool own = !a.neighbours && block == state.rank;
      if (!own && (a.leads_nowhere(a.recv, block) || a.recv.count_of(block) <= 0)) return;
    }
    const std::size_t bytes = bytes_of(a, a.sent(), state.size) + bytes_of(a, a.recv, state.size);
    note_time(state, *state.parts(), bytes, seconds);
  });
}

void note_traffic(const Arguments& a, int ranks, CommState& state) noexcept {
  quietly([&] {
    const auto each = static_cast<double>(state.parts()->traffic.begin());
    if (each == 0) return;
    const Side& side = a.sent();
    std::vector<std::pair<int, double>> sent;
    for (int block = 0; block < a.blocks(side, ranks); ++block) {
      if (a.leads_nowhere(side, block) || side.type_of(block) == MPI_DATATYPE_NULL) continue;
      const int peer = a.neighbours ? a.edges_of(side).ranks[static_cast<std::size_t>(block)] : block;
      sent.emplace_back(peer, each * static_cast<double>(side.count_of(block)) *
                                  static_cast<double>(type_info(side.type_of(block)).size));
    }
    const auto parts = state.parts();
    for (const auto& [peer, bytes] : sent) parts->traffic.add(static_cast<std::size_t>(peer), bytes);
  });
}

void note_traffic(const std::vector<Block>& sent, Traffic& traffic) noexcept {
  quietly([&, each = static_cast<double>(traffic.begin())] {
    for (std::size_t member = 0; each > 0 && member < sent.size(); ++member)
      traffic.add(member, each * static_cast<double>(sent[member].bytes));
  });
}

void note_traffic(std::span<const SparseMessage> sent, Traffic& traffic) noexcept {
  quietly([&, each = static_cast<double>(traffic.begin())] {
    for (std::size_t i = 0; each > 0 && i < sent.size(); ++i)
      traffic.add(static_cast<std::size_t>(sent[i].to), each * static_cast<double>(sent[i].data.size()));
  });
}

void note_traffic(const DeviceCalls& calls, bool uniform, Traffic& traffic) noexcept {
  quietly([&] { calls.add_traffic(uniform, traffic); });
}

void note_call(CommState& state, const char* function, std::string_view plan, std::uint64_t sent,
               double seconds) {
  state.parts()->report.count(function, sent / static_cast<std::size_t>(state.size), plan, {}, sent, seconds,
                              std::nullopt);
}

void keep_counts(const Membership& membership, int rank, const CommParts& parts) noexcept {
  quietly([&] {
    if (report_is_wanted() && membership.world == World::of_process())
      add_traffic(membership, parts, *locked<KeptTraffic>());
  });
  quietly(
      [&] { keep_rows(parts.report.rows(parts.name, rank, static_cast<int>(membership.in_world.size()))); });
}

Traffic traffic_to(int ranks) {
  Traffic traffic = *locked<KeptTraffic>();
  for (std::size_t at = 0; const auto state = next_state(at);) {
    if (state->membership.world == World::of_process())
      add_traffic(state->membership, *state->parts(), traffic);
  }
  const auto last = static_cast<std::size_t>(ranks) - 1;
  traffic.add(last, 0);
  traffic.add_of_gpus(last, 0, true);
  return traffic;
}

std::string name_here(std::string_view function) {
  return name_in_program(function, is_drop_in(), MPI_VERSION < 4);
}

std::string name_for_report(MPI_Comm comm) {
  if (!report_is_wanted()) return {};
  char text[MPI_MAX_OBJECT_NAME] = {};
  int length = 0;
  check_mpi(PMPI_Comm_get_name(comm, text, &length), "MPI_Comm_get_name");
  if (length > 0) return {text, static_cast<std::size_t>(length)};
  return describe_ranks(ranks_in_world(comm), size_of(MPI_COMM_WORLD));
}

std::string explanation(const PlanEntry& entry, const char* function, int ranks, double seconds) {
  std::string line = name_here(function) + ", " + std::to_string(ranks) + " ranks, " +
                     std::to_string(entry.bytes) + " B per pair: " + entry.text + " (" + entry.why + ")";
  if (entry.predicted > 0) line += ", predicted " + in_microseconds(entry.predicted);
  return line + ", first run " + in_microseconds(seconds);
}

}  // namespace tapa
