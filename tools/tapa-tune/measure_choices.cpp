// Times of whole all-to-alls, by forced plans on communicators of their own.
#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>

#include "measure.hpp"
#include "plan/median.hpp"
#include "plan/planner.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

namespace tapa {

namespace {

constexpr std::size_t least_rounds = 3;
constexpr std::size_t most_rounds = 200;

// After so many calls, candidates whose best time is over `factor` times the best of all are not timed
// further. Best times, as a disturbance must not decide; and the three fastest always stay.
struct Cut {
  std::size_t calls;
  double factor;
};
constexpr std::array<Cut, 3> cuts{{{1, 4}, {2, 2.5}, {4, 1.5}}};
constexpr std::size_t always_kept = 3;

double slowest(MPI_Comm comm, double seconds) {
  PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm);
  return seconds;
}

// A candidate and a communicator on which the library uses it.
class Runner {
 public:
  Runner(MPI_Comm comm, const Choice& choice) : choice_(choice) {
    PMPI_Comm_dup(comm, &comm_);
    PMPI_Comm_set_errhandler(comm_, errors_return());
    check(TAPA_Comm_set(comm_, "plan", to_string(choice).c_str()));
  }
  ~Runner() { PMPI_Comm_free(&comm_); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  [[nodiscard]] const Choice& choice() const { return choice_; }

  // One call; the slowest rank's seconds.
  double call(std::vector<char>& send, std::vector<char>& recv, std::size_t bytes) {
    PMPI_Barrier(comm_);
    const double start = PMPI_Wtime();
    check(TAPA_Alltoall(send.data(), static_cast<int>(bytes), MPI_CHAR, recv.data(), static_cast<int>(bytes),
                        MPI_CHAR, comm_));
    return slowest(comm_, PMPI_Wtime() - start);
  }

 private:
  void check(int code) const {
    if (code != MPI_SUCCESS) {
      throw std::runtime_error("plan " + to_string(choice_) + ": " + TAPA_Last_error());
    }
  }

  Choice choice_;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

struct Timed {  // a candidate and what its calls took
  Runner* runner = nullptr;
  std::vector<double> seconds;

  [[nodiscard]] double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
};

class Choices {
 public:
  Choices(MPI_Comm comm, const Topology& topology, const Tuning& machine)
      : comm_(comm), topology_(topology), rates_(tuned_rates(machine, topology, rates_from(topology))) {}

  // Candidates in the order in which they deserve to be timed: MPI itself, then by predicted time.
  [[nodiscard]] std::vector<Choice> in_order(std::size_t bytes) const {
    std::vector<Choice> order{{Algorithm::mpi}};
    for (const Candidate& candidate : rank_candidates(topology_, rates_, {}, bytes, {false, true})) {
      order.push_back(candidate.choice);
    }
    return order;
  }

  std::vector<Measurement> at(std::size_t bytes, double seconds) {
    const double end = PMPI_Wtime() + seconds;
    std::vector<char> send(bytes * static_cast<std::size_t>(topology_.ranks) + 1, 1);
    std::vector<char> recv(send.size());
    std::vector<Timed> all;
    // Half of the time to find the plausible ones. Times are agreed, so all ranks break off alike.
    for (const Choice& choice : in_order(bytes)) {
      if (all.size() >= 2 && time_is_over(end - seconds / 2)) {
        break;
      }
      Runner& runner = runner_of(choice);
      runner.call(send, recv, bytes);  // makes the plan
      all.push_back({&runner, {runner.call(send, recv, bytes)}});
    }
    cut(all);
    for (std::size_t round = 1; round < least_rounds || (round < most_rounds && !time_is_over(end));
         ++round) {
      for (Timed& timed : all) {
        timed.seconds.push_back(timed.runner->call(send, recv, bytes));
      }
      cut(all);
    }
    std::vector<Measurement> result;
    for (const Timed& timed : all) {
      result.push_back({timed.runner->choice(), bytes, std::max(median(timed.seconds), 1e-9)});
    }
    return result;
  }

 private:
  static void cut(std::vector<Timed>& all) {
    std::stable_sort(all.begin(), all.end(),
                     [](const Timed& a, const Timed& b) { return a.best() < b.best(); });
    for (const Cut& c : cuts) {
      while (all.size() > always_kept && all.back().seconds.size() == c.calls &&
             all.back().best() > c.factor * all.front().best()) {
        all.pop_back();
      }
    }
  }

  [[nodiscard]] bool time_is_over(double end) const { return slowest(comm_, PMPI_Wtime() - end) > 0; }

  Runner& runner_of(const Choice& choice) {
    for (const auto& runner : runners_) {
      if (runner->choice() == choice) {
        return *runner;
      }
    }
    runners_.push_back(std::make_unique<Runner>(comm_, choice));
    return *runners_.back();
  }

  MPI_Comm comm_;
  const Topology& topology_;
  Rates rates_;
  std::vector<std::unique_ptr<Runner>> runners_;
};

}  // namespace

std::vector<Measurement> measure_choices(MPI_Comm comm, const Topology& topology, const Tuning& machine,
                                         const std::vector<std::size_t>& sizes, double seconds,
                                         const TuneProgress& progress) {
  std::vector<Measurement> all;
  if (topology.ranks < 2) {
    return all;
  }
  Choices choices(comm, topology, machine);
  const double start = PMPI_Wtime();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // What is left is shared equally, so that fast small sizes leave more for the large ones.
    const double left = slowest(comm, seconds - (PMPI_Wtime() - start));
    if (i > 0 && left <= 0) {
      break;
    }
    progress(std::to_string(sizes[i]) + " bytes per pair");
    const auto measured = choices.at(sizes[i], std::max(0.0, left) / static_cast<double>(sizes.size() - i));
    all.insert(all.end(), measured.begin(), measured.end());
  }
  return all;
}

Tuning measure(MPI_Comm comm, const Topology& topology, const TuneRequest& request,
               const TuneProgress& progress) {
  const double start = PMPI_Wtime();
  Tuning tuning = measure_machine(comm, topology, progress);
  const double left = request.seconds - (PMPI_Wtime() - start);
  tuning.measurements = measure_choices(comm, topology, tuning, request.sizes, std::max(0.0, left), progress);
  return tuning;
}

}  // namespace tapa
