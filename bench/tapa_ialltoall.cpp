// Overlap of TAPA_Ialltoall with computation, with the options and columns of osu_ialltoall.
// As there: first the pure communication is timed, then the call overlapped with computation of the same
// length.
#include <algorithm>
#include <array>
#include <cstdio>

#include "common/blocks.hpp"
#include "common/driver.hpp"
#include "common/mpi_algorithms.hpp"
#include "common/race.hpp"
#include "common/requests.hpp"
#include "tapa/tapa.h"

namespace {

using namespace tapa::bench;

class Ialltoall final : public BlockExchange {
 public:
  using BlockExchange::BlockExchange;

  int start(bool ours, MPI_Comm comm, MPI_Request* request) {
    // In a race MPI itself is meant, even when a drop-in has taken over MPI_Ialltoall.
    const auto call = ours ? TAPA_Ialltoall : (options().use_mpi ? MPI_Ialltoall : PMPI_Ialltoall);
    return call(send(), count(), MPI_CHAR, recv(), count(), MPI_CHAR, comm, request);
  }
  int call_tapa(MPI_Comm comm) override { return complete(true, comm); }
  int call_mpi(MPI_Comm comm) override { return complete(false, comm); }

 private:
  int complete(bool ours, MPI_Comm comm) {
    return run_nonblocking([&](MPI_Request* request) { return start(ours, comm, request); });
  }
};

// Arithmetic that touches no memory beyond the cache; as OSU's, it runs until the clock says so.
class Computation {
 public:
  void run(double seconds) {
    const double end = MPI_Wtime() + seconds;
    do {
      for (std::size_t i = 0; i < values_.size(); ++i) {
        values_[i] = values_[i] * 0.999 + values_[(i + 1) % values_.size()] * 0.001;
      }
    } while (MPI_Wtime() < end);
    sink_ = values_[0];
  }

 private:
  std::array<double, 64> values_{1, 2, 3};
  volatile double sink_ = 0;  // keeps the work from being optimized away
};

struct Parts {
  double init = 0, compute = 0, test = 0, wait = 0;
};

class Overlap {
 public:
  Overlap(const Program& program, const Session& session)
      : program_(program),
        session_(session),
        options_(session.options()),
        columns_{options_.full, options_.validate, false, options_.versus_mpi},
        exchange_(comm_, options_) {}

  int run() {
    check(TAPA_Comm_setup(comm_), "TAPA_Comm_setup");  // else nonblocking calls are MPI's
    session_.print(preamble(program_, options_) +
                   "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait\n\n" +
                   (options_.versus_mpi ? versus_header(columns_) : overlap_header(columns_)));
    bool all_valid = true;
    for (const std::size_t bytes : sizes(options_, session_.machine().ranks)) {
      exchange_.resize(bytes);
      all_valid = one_size(bytes) && all_valid;
    }
    return write_json(program_, options_, session_.machine(), session_.rank(), rows_) && all_valid ? 0 : 1;
  }

 private:
  [[nodiscard]] std::vector<bool> libraries() const {
    return options_.versus_mpi ? std::vector<bool>{true, false} : std::vector<bool>{!options_.use_mpi};
  }

  bool one_size(std::size_t bytes) {
    const std::vector<bool> ours = libraries();
    std::vector<Contender> pure;
    for (const bool mine : ours) {
      pure.push_back({mine ? "TAPA" : "default", mine, false, [this, mine] { pure_call(mine); }});
    }
    const bool valid = !options_.validate || validate(ours);
    const std::vector<Times> communication = race(comm_, pure, options_, bytes);
    double target =
        0;  // in a race both libraries get the same computation, as long as the longer of their calls
    for (const Times& t : communication) {
      target = std::max(target, summarize(t.own).mean);
    }
    std::vector<std::vector<Parts>> parts(ours.size());
    std::vector<Contender> overlapped = pure;
    for (std::size_t c = 0; c < ours.size(); ++c) {
      overlapped[c].call = [this, target, mine = static_cast<bool>(ours[c]), &into = parts[c]] {
        into.push_back(overlapped_call(mine, target));
      };
    }
    const std::vector<Times> overall = race(comm_, overlapped, options_, bytes);
    VersusRow versus{bytes, {}, "", std::nullopt, std::nullopt, valid};
    for (std::size_t c = 0; c < ours.size(); ++c) {
      OverlapRow row = average(communication[c], overall[c], parts[c]);
      row.bytes = bytes;
      row.valid = valid;
      versus.candidates.push_back({pure[c].name, ours[c], summarize(overall[c].slowest), row.overlap});
      if (!options_.versus_mpi) {
        session_.print(overlap_line(row, columns_));
      }
    }
    if (options_.versus_mpi) {
      versus.plan = plan_of(comm_, bytes);
      session_.print(versus_line(versus, columns_));
      rows_.push_back(std::move(versus));
    }
    return valid;
  }

  void pure_call(bool mine) {
    check(mine ? exchange_.call_tapa(comm_) : exchange_.call_mpi(comm_), program_.name);
  }

  Parts overlapped_call(bool mine, double target) {
    Parts parts;
    MPI_Request request = MPI_REQUEST_NULL;
    const double start = MPI_Wtime();
    check(exchange_.start(mine, comm_, &request), program_.name);
    const double started = MPI_Wtime();
    const int pieces = std::max(1, options_.test_calls);
    for (int piece = 0; piece < pieces; ++piece) {
      computation_.run(target / pieces);
      if (options_.test_calls > 0) {
        const double before = MPI_Wtime();
        int done = 0;
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        parts.test += MPI_Wtime() - before;
      }
    }
    const double computed = MPI_Wtime();
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    parts.wait = MPI_Wtime() - computed;
    parts.init = started - start;
    parts.compute = computed - started - parts.test;
    return parts;
  }

  // Averages over calls and ranks, in microseconds. `parts` has the untimed calls first.
  OverlapRow average(const Times& communication, const Times& overall,
                     const std::vector<Parts>& parts) const {
    const std::size_t calls = overall.own.size();
    enum { all, pure, init, compute, test, wait, count };
    std::array<double, count> sums{};
    sums[all] = summarize(overall.own).mean;
    sums[pure] = summarize(communication.own).mean;
    for (std::size_t i = parts.size() - calls; i < parts.size(); ++i) {
      sums[init] += parts[i].init / static_cast<double>(calls);
      sums[compute] += parts[i].compute / static_cast<double>(calls);
      sums[test] += parts[i].test / static_cast<double>(calls);
      sums[wait] += parts[i].wait / static_cast<double>(calls);
    }
    double low = sums[pure];
    double high = sums[pure];
    MPI_Allreduce(MPI_IN_PLACE, &low, 1, MPI_DOUBLE, MPI_MIN, comm_);
    MPI_Allreduce(MPI_IN_PLACE, &high, 1, MPI_DOUBLE, MPI_MAX, comm_);
    MPI_Allreduce(MPI_IN_PLACE, sums.data(), count, MPI_DOUBLE, MPI_SUM, comm_);
    for (double& sum : sums) {
      sum *= 1e6 / session_.machine().ranks;
    }
    OverlapRow row;
    row.overall = sums[all];
    row.communication = sums[pure];
    row.init = sums[init];
    row.compute = sums[compute];
    row.test = sums[test];
    row.wait = sums[wait];
    row.min_communication = low * 1e6;
    row.max_communication = high * 1e6;
    row.overlap = overlap_percent(row.overall, row.compute, row.communication);
    return row;
  }

  bool validate(const std::vector<bool>& ours) {
    unsigned long long wrong = 0;
    for (const bool mine : ours) {
      for (int call = 0; call < options_.validation_calls; ++call) {
        const auto seed = static_cast<std::uint32_t>(call + 1);
        exchange_.fill(seed);
        overlapped_call(mine, 0);
        wrong += exchange_.wrong_bytes(seed);
      }
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, comm_);
    if (wrong != 0 && session_.rank() == 0) {
      std::fprintf(stderr, "%s: %llu bytes are wrong\n", program_.name.c_str(), wrong);
    }
    return wrong == 0;
  }

  const MPI_Comm comm_ = MPI_COMM_WORLD;
  const Program& program_;
  const Session& session_;
  const Options& options_;
  Columns columns_;
  Ialltoall exchange_;
  Computation computation_;
  std::vector<VersusRow> rows_;
};

}  // namespace

int main(int argc, char** argv) {
  const Program program{Kind::ialltoall, "tapa_ialltoall", "Non-blocking All-to-All Latency Test", "", {}};
  const Session session(program, argc, argv);
  return session.ended() ? session.exit_code() : Overlap(program, session).run();
}
