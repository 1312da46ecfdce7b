#include "race.hpp"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "statistics.hpp"

namespace tapa::bench {

namespace {

constexpr std::size_t large_message = 8192;  // OSU's
constexpr int least_rounds = 5;
constexpr int first_rounds = 3;
constexpr double hopeless = 1.5;

class Loop {
 public:
  Loop(MPI_Comm comm, const std::vector<Contender>& contenders, const Options& options)
      : comm_(comm),
        contenders_(contenders),
        burst_(options.burst),
        late_(lateness(comm, options)),
        times_(contenders.size()),
        running_(contenders.size()) {
    std::iota(running_.begin(), running_.end(), std::size_t{0});
  }

  // The slowest rank's seconds for `rounds` untimed rounds, of all or of ours alone.
  double warm_up(int rounds, bool only_ours = false) {
    MPI_Barrier(comm_);
    const double start = MPI_Wtime();
    for (int round = 0; round < rounds; ++round) {
      for (const std::size_t c : running_) {
        if (only_ours && !contenders_[c].ours) continue;
        contenders_[c].call();
        MPI_Barrier(comm_);
      }
    }
    return slowest(MPI_Wtime() - start);
  }

  // Ours alone, untimed, for at most so many seconds.
  void settle(int calls, double seconds) {
    double spent = 0;
    for (int done = 0, batch = 1; done < calls && spent < seconds; done += batch, batch *= 2)
      spent += warm_up(std::min(batch, calls - done), true);
  }

  double timed(int rounds) {
    const double start = MPI_Wtime();
    MPI_Barrier(comm_);
    for (int round = 0; round < rounds; ++round) {
      std::shuffle(running_.begin(), running_.end(), order_);
      for (const std::size_t c : running_) {
        if (late_ > 0) usleep(late_);
        const double before = MPI_Wtime();
        for (int i = 0; i < burst_; ++i) contenders_[c].call();
        times_[c].own.push_back((MPI_Wtime() - before) / burst_);
        MPI_Barrier(comm_);
      }
    }
    return slowest(MPI_Wtime() - start);
  }

  void agree() {
    for (Times& t : times_) {
      t.slowest.resize(t.own.size());
      MPI_Allreduce(t.own.data(), t.slowest.data(), static_cast<int>(t.own.size()), MPI_DOUBLE, MPI_MAX,
                    comm_);
    }
  }

  void drop_beaten() {
    double best = std::numeric_limits<double>::max();
    for (const std::size_t c : running_) {
      if (!contenders_[c].bound) best = std::min(best, summarize(times_[c].slowest).median);
    }
    std::erase_if(running_, [&](std::size_t c) {
      return contenders_[c].may_drop && summarize(times_[c].slowest).min > hopeless * best;
    });
  }

  std::vector<Times> take() { return std::move(times_); }

 private:
  double slowest(double seconds) const {
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm_);
    return seconds;
  }

  static useconds_t lateness(MPI_Comm comm, const Options& options) {
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    return static_cast<useconds_t>(rank == ranks - 1 ? options.late : 0);
  }

  MPI_Comm comm_;
  const std::vector<Contender>& contenders_;
  int burst_;
  useconds_t late_;
  std::vector<Times> times_;
  std::vector<std::size_t> running_;
  std::mt19937 order_;  // alike on all ranks
};

int rounds_within(double seconds, double of_one_round, int most) {
  return of_one_round <= 0
             ? most
             : static_cast<int>(std::clamp(seconds / of_one_round, 0.0, static_cast<double>(most)));
}

}  // namespace

std::vector<Times> race(MPI_Comm comm, const std::vector<Contender>& contenders, const Options& options,
                        std::size_t bytes) {
  Loop loop(comm, contenders, options);
  const bool large = bytes > large_message;
  loop.settle(options.settle, options.seconds);
  loop.warm_up(1);  // plans and connections are made here
  if (options.warmup) {
    loop.warm_up(*options.warmup);
  } else {
    const double one = loop.warm_up(1);
    loop.warm_up(rounds_within(options.seconds / 5, one, large ? 10 : 100));
  }
  const int first = options.iterations ? std::min(first_rounds, *options.iterations) : first_rounds;
  double spent = loop.timed(first);
  loop.agree();
  loop.drop_beaten();
  if (options.iterations) {
    loop.timed(*options.iterations - first);
  } else {
    const int most = large ? 100 : 1000;
    // Batches, each twice the last, so that a first slow round does not decide how many there are.
    for (int done = first, batch = 2; done < most; done += batch, batch = std::min(2 * batch, most - done)) {
      spent += loop.timed(batch);
      const double one = spent / (done + batch);
      if (done + batch >= least_rounds &&
          spent + one * std::min(2 * batch, most - done - batch) > options.seconds) {
        break;
      }
    }
  }
  loop.agree();
  return loop.take();
}

}  // namespace tapa::bench
