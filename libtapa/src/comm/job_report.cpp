#include "comm/job_report.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/call_notes.hpp"
#include "comm/machine_view.hpp"
#include "comm/registry.hpp"
#include "comm/results_store.hpp"
#include "report/call_samples.hpp"
#include "report/report_json.hpp"
#include "report/report_text.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/on_all_ranks.hpp"
#include "run/world.hpp"
#include "world/drop_in.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

// Of all ranks together, but for the least of each: rank 0 has memory for so many.
constexpr std::size_t kMostSamples = std::size_t{1} << 20;
constexpr std::size_t kLeastSamples = 16;

/// Every rank's values on rank 0, nothing on the others. Collective over MPI_COMM_WORLD. What is too long in
/// all is cut. Throws on all ranks where rank 0 has no memory for it.
template <class Value>
std::vector<std::vector<Value>> gather(std::span<const Value> mine, int rank, int ranks) {
  const auto most = static_cast<std::size_t>(std::numeric_limits<int>::max() / ranks) / sizeof(Value);
  mine = mine.first(std::min(mine.size(), most));
  const int length = static_cast<int>(mine.size_bytes());
  std::vector<int> lengths;
  const auto count = static_cast<std::size_t>(rank == 0 ? ranks : 0);
  if (!on_all_ranks(MPI_COMM_WORLD, [&] { lengths.resize(count); })) throw std::bad_alloc();
  check_mpi(PMPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Gather");
  std::vector<int> starts;
  std::vector<Value> all;
  std::vector<std::vector<Value>> values;
  const auto make_room = [&] {
    starts.resize(count);
    std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
    all.resize(static_cast<std::size_t>(std::reduce(lengths.begin(), lengths.end())) / sizeof(Value));
    for (const int bytes : lengths) values.emplace_back(static_cast<std::size_t>(bytes) / sizeof(Value));
  };
  if (!on_all_ranks(MPI_COMM_WORLD, make_room)) throw std::bad_alloc();
  check_mpi(PMPI_Gatherv(mine.data(), length, MPI_BYTE, all.data(), lengths.data(), starts.data(), MPI_BYTE,
                         0, MPI_COMM_WORLD),
            "MPI_Gatherv");
  for (auto next = all.begin(); auto& of_rank : values) {
    const auto first = std::exchange(next, next + static_cast<std::ptrdiff_t>(of_rank.size()));
    std::copy(first, next, of_rank.begin());
  }
  return values;
}

/// The machine of MPI_COMM_WORLD, set up or not, alike on all ranks. `ranks`: in the world, of those.
MachineView whole_machine(const std::shared_ptr<World>& world, const std::vector<int>& ranks) {
  if (const auto state = find_state(MPI_COMM_WORLD); state && state->ready())
    return state->parts()->chooser.machine();
  Membership whole;
  whole.world = world;
  whole.in_world = ranks;
  whole.one_node = world->nodes == 1;
  constexpr int silent = -1;  // what is wrong with files was said before
  return view_machine(whole, *world->shared.options, silent);
}

/// Where a rank's bytes, then those of all, went: by level, and between nodes in each order of the ranks.
class JobTraffic {
 public:
  /// This rank's.
  JobTraffic(const std::shared_ptr<World>& world, int rank)
      : ranks_(world->ranks_of(MPI_COMM_WORLD)), machine_(whole_machine(world, ranks_)) {
    const Traffic by_world = traffic_to(world->size);
    std::vector<double> sent;
    std::vector<GpuBytes> of_gpus;
    for (const int r : ranks_) {
      sent.push_back(by_world.bytes()[static_cast<std::size_t>(r)]);
      of_gpus.push_back(by_world.of_gpus()[static_cast<std::size_t>(r)]);
    }
    levels_ = bytes_by_level(topology(), rank, sent, of_gpus);
    for (const LevelBytes& level : levels_) bytes_.push_back(level.bytes);
    if (nodes() < 2) return;
    bytes_.resize(levels_.size() + 2 * nodes() * kRankOrders);
    for (int r = 0; r < topology().ranks; ++r) node_of_.push_back(topology().node_of(r));
    for (std::size_t order = 0; order < kRankOrders; ++order) {
      const std::vector<int> node = nodes_in_order(static_cast<RankOrder>(order), node_of_);
      add_node_bytes(node, rank, sent, leaving(order), coming(order));
    }
  }

  /// Collective over MPI_COMM_WORLD.
  void add_up(int rank) {
    check_mpi(PMPI_Reduce(rank == 0 ? MPI_IN_PLACE : bytes_.data(), rank == 0 ? bytes_.data() : nullptr,
                          static_cast<int>(bytes_.size()), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD),
              "MPI_Reduce");
  }

  [[nodiscard]] std::vector<LevelBytes> levels() const {
    std::vector<LevelBytes> levels = levels_;
    for (std::size_t l = 0; l < levels.size(); ++l) levels[l].bytes = bytes_[l];
    std::erase_if(levels,
                  [](const LevelBytes& l) { return l.bytes == 0 && (l.name == "gpu" || l.name == "host"); });
    return levels;
  }
  /// Whether another order of the ranks would send less between the nodes.
  [[nodiscard]] std::optional<OrderAdvice> order() {
    if (nodes() < 2) return std::nullopt;
    std::array<NicLoad, kRankOrders> loads;
    for (std::size_t order = 0; order < kRankOrders; ++order)
      loads[order] = busiest(topology(), machine_.rates.nic_bandwidth, leaving(order), coming(order));
    auto advice = advise(loads, seconds_since_beginning());
    if (advice) advice->ranks_per_node = ranks_per_node(node_of_);
    return advice;
  }

 private:
  [[nodiscard]] const Topology& topology() const { return *machine_.topology; }
  [[nodiscard]] std::size_t nodes() const { return static_cast<std::size_t>(topology().nodes()); }
  std::span<double> leaving(std::size_t order) { return part(2 * order); }
  std::span<double> coming(std::size_t order) { return part(2 * order + 1); }
  std::span<double> part(std::size_t number) {
    return std::span(bytes_).subspan(levels_.size() + number * nodes(), nodes());
  }

  std::vector<int> ranks_;  // in the world, of those of MPI_COMM_WORLD
  MachineView machine_;
  std::vector<LevelBytes> levels_;
  std::vector<int> node_of_;   // each rank's
  std::vector<double> bytes_;  // of the levels, then of the nodes
};

/// What all ranks have sent, on rank 0; null on all of them where one has no memory for it, or cannot read
/// what options name. Collective over MPI_COMM_WORLD.
std::unique_ptr<JobTraffic> whole_traffic(const std::shared_ptr<World>& world, int rank) {
  std::unique_ptr<JobTraffic> traffic;
  const auto count = [&] { traffic = std::make_unique<JobTraffic>(world, rank); };
  if (!on_all_ranks(MPI_COMM_WORLD, count)) return nullptr;
  traffic->add_up(rank);
  return traffic;
}

/// As far as this rank knows.
ReportHead own_head() {
  const SetupTotal setup = *locked<SetupTotal>();
  return {size_of(MPI_COMM_WORLD),
          seconds_since_beginning(),
          is_drop_in() ? "MPI_Init" : "the first call",
          setup.setups,
          setup.seconds,
          results_report()};
}

/// Of the communicators whose rank 0 this is; alone on one, only the job's rank 0 counts.
std::string own_report(int world_rank, std::optional<ReportHead> head = std::nullopt) {
  auto rows = report_rows();
  if (world_rank != 0) std::erase_if(rows, [](const ReportRow& row) { return row.ranks == 1; });
  for (ReportRow& row : rows) row.function = name_here(row.function);
  if (!head && world_rank == 0 && (report_is_wanted() || !rows.empty())) head = own_head();
  const auto world = World::of_process();
  const Options& options = world ? *world->shared.options : own_options();
  const bool json = options.text("report").ends_with("json");
  return json ? report_json(rows, head) : format_report(rows, head);
}

/// All of it on rank 0, nothing on the others. Collective over MPI_COMM_WORLD.
std::string whole_report(const std::shared_ptr<World>& world, int rank) {
  const std::unique_ptr<JobTraffic> traffic = whole_traffic(world, rank);
  const int ranks = size_of(MPI_COMM_WORLD);
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
  ReportHead head = own_head();
  head.lateness = find_lateness(all_samples);
  if (traffic) {
    head.levels = traffic->levels();
    head.order = traffic->order();
  }
  std::string report = own_report(rank, std::move(head));
  for (const std::vector<char>& part : texts) report.append(part.begin(), part.end());
  return report;
}

}  // namespace

void print_report() noexcept {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto print = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  try {
    const auto world = World::of_process();
    const bool all = world && world->shared.options->settings().report != Reporting::off;
    print(all ? whole_report(world, rank) : own_report(rank));
  } catch (const std::exception& e) {
    try {
      log_warn(words("the ranks' reports come apart: ", e.what()));
      print(own_report(rank));
    } catch (const std::exception&) {  // without a report the program ends as it would
    }
  }
}

}  // namespace tapa
