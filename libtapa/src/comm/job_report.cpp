#include "comm/job_report.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/call_notes.hpp"
#include "comm/names.hpp"
#include "comm/registry.hpp"
#include "comm/results_store.hpp"
#include "report/call_samples.hpp"
#include "report/report_json.hpp"
#include "report/report_text.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "world/drop_in.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

// Of all ranks together, but for the least of each: rank 0 has memory for so many.
constexpr std::size_t kMostSamples = std::size_t{1} << 20;
constexpr std::size_t kLeastSamples = 16;

/// Every rank's values on rank 0, nothing on the others. Collective over MPI_COMM_WORLD. What is too long in
/// all is cut.
template <class Value>
std::vector<std::vector<Value>> gather(std::span<const Value> mine, int rank, int ranks) {
  const auto most = static_cast<std::size_t>(std::numeric_limits<int>::max() / ranks) / sizeof(Value);
  mine = mine.first(std::min(mine.size(), most));
  const int length = static_cast<int>(mine.size_bytes());
  std::vector<int> lengths(rank == 0 ? static_cast<std::size_t>(ranks) : 0);
  check_mpi(PMPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Gather");
  std::vector<int> starts(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
  const int total = std::reduce(lengths.begin(), lengths.end());
  std::vector<Value> all(static_cast<std::size_t>(total) / sizeof(Value));
  check_mpi(PMPI_Gatherv(mine.data(), length, MPI_BYTE, all.data(), lengths.data(), starts.data(), MPI_BYTE,
                         0, MPI_COMM_WORLD),
            "MPI_Gatherv");
  std::vector<std::vector<Value>> values;
  for (auto next = all.begin(); const int bytes : lengths) {
    const auto first = std::exchange(next, next + bytes / static_cast<int>(sizeof(Value)));
    values.emplace_back(first, next);
  }
  return values;
}

/// Whether another order of the ranks would send less between the nodes. Collective over MPI_COMM_WORLD, the
/// result on rank 0; `machine` is alike on all ranks.
std::optional<OrderAdvice> order_advice(const MachineView& machine, int rank) {
  const Topology& topology = *machine.topology;
  const auto nodes = static_cast<std::size_t>(topology.nodes());
  if (nodes < 2) return std::nullopt;
  std::vector<int> given;
  for (int r = 0; r < topology.ranks; ++r) given.push_back(topology.node_of(r));
  const std::vector<double> sent = traffic_to(topology.ranks);
  std::vector<double> bytes(2 * nodes * kRankOrders);
  const auto part = [&](std::size_t order, bool in) {
    return std::span(bytes).subspan((2 * order + (in ? 1 : 0)) * nodes, nodes);
  };
  for (std::size_t order = 0; order < kRankOrders; ++order) {
    const std::vector<int> node = nodes_in_order(static_cast<RankOrder>(order), given);
    add_node_bytes(node, rank, sent, part(order, false), part(order, true));
  }
  check_mpi(PMPI_Reduce(rank == 0 ? MPI_IN_PLACE : bytes.data(), rank == 0 ? bytes.data() : nullptr,
                        static_cast<int>(bytes.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD),
            "MPI_Reduce");
  std::array<NicLoad, kRankOrders> loads;
  for (std::size_t order = 0; order < kRankOrders; ++order)
    loads[order] = busiest(topology, machine.rates.nic_bandwidth, part(order, false), part(order, true));
  return advise(loads, seconds_since_beginning());
}

ReportHead head_of(Lateness lateness, const std::optional<OrderAdvice>& order) {
  const SetupTotal setup = setup_total();
  ReportHead head{0,
                  seconds_since_beginning(),
                  is_drop_in() ? "MPI_Init" : "the first call",
                  setup.setups,
                  setup.seconds,
                  results_report(),
                  std::move(lateness),
                  order};
  PMPI_Comm_size(MPI_COMM_WORLD, &head.ranks);
  return head;
}

/// Of the communicators of which this is rank 0; of those of one rank only the job's rank 0's are
/// interesting. `lateness`, `order`: what all ranks know together, on rank 0.
std::string own_report(int world_rank, Lateness lateness = {}, const std::optional<OrderAdvice>& order = {}) {
  auto rows = report_rows();
  if (world_rank != 0) std::erase_if(rows, [](const ReportRow& row) { return row.ranks == 1; });
  for (ReportRow& row : rows) row.function = name_here(row.function);
  std::optional<ReportHead> head;
  if (world_rank == 0 && (report_is_wanted() || !rows.empty())) head = head_of(std::move(lateness), order);
  const auto world = World::of_process();
  const Options& options = world ? *world->options() : own_options();
  const bool json = options.text("report").ends_with("json");
  return json ? report_json(rows, head) : format_report(rows, head);
}

/// All of it on rank 0, nothing on the others. Collective over MPI_COMM_WORLD.
std::string whole_report(int rank) {
  std::optional<OrderAdvice> order;
  if (const auto whole = find_state(MPI_COMM_WORLD); whole && whole->ready()) {
    const MachineView& machine = whole->parts()->chooser.machine();  // the lock is taken again
    order = order_advice(machine, rank);
  }
  int ranks = 0;
  check_mpi(PMPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  const auto most = std::max(kLeastSamples, kMostSamples / static_cast<std::size_t>(ranks));
  std::vector<CallSample> samples;
  std::string text;
  try {
    samples = kept_samples(most);
    if (rank != 0) text = own_report(rank);
  } catch (const std::exception&) {  // the others wait for this rank
    samples.clear();
  }
  const auto all_samples = gather<CallSample>(samples, rank, ranks);
  const auto texts = gather<char>(text, rank, ranks);
  if (rank != 0) return {};
  std::string report = own_report(rank, find_lateness(all_samples), order);
  for (const std::vector<char>& part : texts) report.append(part.begin(), part.end());
  return report;
}

}  // namespace

void print_report() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string text;
  try {
    const auto world = World::of_process();
    const bool all = is_drop_in() && world && world->options()->settings().report != Reporting::off;
    text = all ? whole_report(rank) : own_report(rank);
  } catch (const std::exception& e) {
    log_warn(std::string("the ranks' reports come apart: ") + e.what());
    text = own_report(rank);
  }
  std::fputs(text.c_str(), stderr);
}

}  // namespace tapa
