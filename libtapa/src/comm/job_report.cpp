#include "comm/job_report.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
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
#include "comm/names.hpp"
#include "comm/registry.hpp"
#include "comm/results_store.hpp"
#include "report/call_samples.hpp"
#include "report/report_json.hpp"
#include "report/report_text.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "run/on_all_ranks.hpp"
#include "world/drop_in.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

// Of all ranks together, but for the least of each: rank 0 has memory for so many.
constexpr std::size_t kMostSamples = std::size_t{1} << 20;
constexpr std::size_t kLeastSamples = 16;

/// What a rank tells rank 0: its samples, and its part of the report.
struct RankRecord {
  std::vector<CallSample> samples;
  std::string text;
};

std::string pack(const RankRecord& record) {
  const std::size_t number = record.samples.size();
  std::string packed(sizeof number + number * sizeof(CallSample), '\0');
  std::memcpy(packed.data(), &number, sizeof number);
  if (number > 0)
    std::memcpy(packed.data() + sizeof number, record.samples.data(), number * sizeof(CallSample));
  return packed + record.text;
}

RankRecord unpack(const std::string& packed) {
  RankRecord record;
  std::size_t number = 0;
  if (packed.size() < sizeof number) return record;
  std::memcpy(&number, packed.data(), sizeof number);
  const std::size_t room = (packed.size() - sizeof number) / sizeof(CallSample);
  record.samples.resize(std::min(number, room));
  const std::size_t bytes = record.samples.size() * sizeof(CallSample);
  if (bytes > 0) std::memcpy(record.samples.data(), packed.data() + sizeof number, bytes);
  record.text = packed.substr(sizeof number + bytes);
  return record;
}

/// Where each rank's text begins on rank 0, and where the last ends.
std::vector<int> starts_of(const std::vector<int>& lengths) {
  std::vector<int> starts(lengths.size() + 1);
  std::partial_sum(lengths.begin(), lengths.end(), starts.begin() + 1);
  return starts;
}

/// Every rank's on rank 0, nothing on the others. Collective. What is too long in all is cut. Throws on all
/// ranks where rank 0 has no memory for it.
std::vector<std::string> gather(MPI_Comm comm, std::string mine) {
  int rank = 0;
  int ranks = 0;
  check_mpi(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  const auto most = static_cast<std::size_t>(std::numeric_limits<int>::max() / ranks);
  mine.resize(std::min(mine.size(), most));
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths;
  const auto count = static_cast<std::size_t>(rank == 0 ? ranks : 0);
  if (!on_all_ranks(comm, [&] { lengths.resize(count); })) throw std::bad_alloc();
  check_mpi(PMPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, comm), "MPI_Gather");
  std::vector<int> starts;
  std::string all;
  const auto make_room = [&] {
    starts = starts_of(lengths);
    all.resize(static_cast<std::size_t>(starts.back()));
  };
  if (!on_all_ranks(comm, make_room)) throw std::bad_alloc();
  check_mpi(PMPI_Gatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR,
                         0, comm),
            "MPI_Gatherv");
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < lengths.size(); ++r)
    texts.push_back(all.substr(static_cast<std::size_t>(starts[r]), static_cast<std::size_t>(lengths[r])));
  return texts;
}

/// What all ranks know together, on rank 0.
struct JobView {
  Lateness lateness;
  std::vector<LevelBytes> levels;
  std::optional<OrderAdvice> order;
};

/// The machine of all ranks, by their ranks in MPI_COMM_WORLD, whether that was set up or not. Alike on all.
/// `ranks`: in the world, of those.
MachineView whole_machine(const std::shared_ptr<World>& world, const std::vector<int>& ranks) {
  if (const auto state = find_state(MPI_COMM_WORLD); state && state->ready())
    return state->parts()->chooser.machine();
  Membership whole;
  whole.world = world;
  whole.in_world = ranks;
  whole.one_node = world->nodes() == 1;
  constexpr int silent = -1;  // what is wrong with files was said before
  return view_machine(whole, *world->options(), silent, false);
}

/// Where a rank's bytes went, and, once they are added up, those of all ranks: by level, and between the
/// nodes in each order of the ranks.
class JobTraffic {
 public:
  /// This rank's.
  JobTraffic(const std::shared_ptr<World>& world, int rank)
      : ranks_(world->ranks_of(MPI_COMM_WORLD)), machine_(whole_machine(world, ranks_)) {
    const std::vector<double> by_world = traffic_to(world->size());
    std::vector<double> sent;
    for (const int r : ranks_) sent.push_back(by_world[static_cast<std::size_t>(r)]);
    levels_ = bytes_by_level(topology(), rank, sent);
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

ReportHead head_of(JobView job) {
  const SetupTotal setup = setup_total();
  ReportHead head{0,
                  seconds_since_beginning(),
                  is_drop_in() ? "MPI_Init" : "the first call",
                  setup.setups,
                  setup.seconds,
                  results_report(),
                  std::move(job.lateness),
                  std::move(job.levels),
                  job.order};
  PMPI_Comm_size(MPI_COMM_WORLD, &head.ranks);
  return head;
}

/// Of the communicators of which this is rank 0; of those of one rank only the job's rank 0's are
/// interesting.
std::string own_report(int world_rank, JobView job) {
  auto rows = report_rows();
  if (world_rank != 0) std::erase_if(rows, [](const ReportRow& row) { return row.ranks == 1; });
  for (ReportRow& row : rows) row.function = name_here(row.function);
  std::optional<ReportHead> head;
  if (world_rank == 0 && (report_is_wanted() || !rows.empty())) head = head_of(std::move(job));
  const auto world = World::of_process();
  const Options& options = world ? *world->options() : own_options();
  const bool json = options.text("report").ends_with("json");
  return json ? report_json(rows, head) : format_report(rows, head);
}

/// All of it on rank 0, nothing on the others. Collective over MPI_COMM_WORLD.
std::string whole_report(const std::shared_ptr<World>& world, int rank) {
  const std::unique_ptr<JobTraffic> traffic = whole_traffic(world, rank);
  int ranks = 0;
  check_mpi(PMPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  const auto most = std::max(kLeastSamples, kMostSamples / static_cast<std::size_t>(ranks));
  std::string mine;
  try {
    mine = pack({kept_samples(most), rank == 0 ? "" : own_report(rank, {})});
  } catch (const std::exception&) {  // the others wait for this rank
    mine.clear();
  }
  const auto texts = gather(MPI_COMM_WORLD, std::move(mine));
  if (rank != 0) return {};
  std::string others;
  std::vector<std::vector<CallSample>> samples;
  for (const std::string& packed : texts) {
    RankRecord record = unpack(packed);
    samples.push_back(std::move(record.samples));
    others += record.text;
  }
  JobView job;
  if (traffic) {
    job.levels = traffic->levels();
    job.order = traffic->order();
  }
  job.lateness = find_lateness(samples);
  return own_report(rank, std::move(job)) + others;
}

}  // namespace

void print_report() noexcept {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto print = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  try {
    const auto world = World::of_process();
    const bool all = world && world->options()->settings().report != Reporting::off;
    print(all ? whole_report(world, rank) : own_report(rank, {}));
  } catch (const std::exception& e) {
    try {
      log_warn(std::string("the ranks' reports come apart: ") + e.what());
      print(own_report(rank, {}));
    } catch (const std::exception&) {  // without a report the program ends as it would
    }
  }
}

}  // namespace tapa
