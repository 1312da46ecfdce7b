// Links, cores and memory. While one pair is measured the other ranks sleep, so that they disturb nobody even
// when ranks share cores.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <set>
#include <stdexcept>
#include <utility>

#include "measure.hpp"
#include "pairs.hpp"
#include "plan/median.hpp"
#include "topology/json_reader.hpp"

namespace tapa {

namespace {

constexpr int tag = 0;
constexpr double least_time = 1e-9;  // what a clock that did not move is taken for

void check(int code, const char* call) {
  if (code != MPI_SUCCESS) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    PMPI_Error_string(code, text.data(), &length);
    throw std::runtime_error(std::string(call) + ": " + text.data());
  }
}

double typical(std::vector<double> samples) {
  return std::max(median(std::move(samples)), least_time);
}

// A barrier in which waiting costs no CPU.
void sleepy_barrier(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(PMPI_Ibarrier(comm, &request), "MPI_Ibarrier");
  for (int done = 0; done == 0;) {
    check(PMPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) {
      usleep(500);
    }
  }
}

// One rank's part in measuring a level; `first` ranks begin and keep time.
class Pair {
 public:
  Pair(MPI_Comm comm, int rank, int partner) : comm_(comm), partner_(partner), first_(rank < partner) {}

  // Seconds one way of a message of 8 bytes.
  double latency() {
    std::vector<double> samples;
    std::array<char, 8> data{};
    for (const double end = PMPI_Wtime() + 0.2; keep_going(samples.size(), 20, 500, end);) {
      const double start = PMPI_Wtime();
      if (first_) {
        send(data.data(), data.size());
        receive(data.data(), data.size());
      } else {
        receive(data.data(), data.size());
        send(data.data(), data.size());
      }
      samples.push_back((PMPI_Wtime() - start) / 2);
    }
    return typical(samples);
  }

  // Seconds per message of a burst of small ones, posted, sent and completed.
  double message() {
    constexpr std::size_t burst = 64;
    std::vector<double> samples;
    std::vector<std::array<char, 8>> data(burst);
    std::vector<MPI_Request> requests(burst);
    for (const double end = PMPI_Wtime() + 0.2; keep_going(samples.size(), 5, 200, end);) {
      const double start = PMPI_Wtime();
      for (std::size_t i = 0; i < burst; ++i) {
        check(first_ ? PMPI_Isend(data[i].data(), 8, MPI_CHAR, partner_, tag, comm_, &requests[i])
                     : PMPI_Irecv(data[i].data(), 8, MPI_CHAR, partner_, tag, comm_, &requests[i]),
              "MPI_Isend");
      }
      check(PMPI_Waitall(static_cast<int>(burst), requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
      char last = 0;
      first_ ? receive(&last, 1) : send(&last, 1);  // sent is not received
      samples.push_back((PMPI_Wtime() - start) / static_cast<double>(burst));
    }
    return typical(samples);
  }

  // Bytes per second from the first to the second rank, with messages that take about 50 ms together.
  double bandwidth() {
    constexpr std::size_t probe = std::size_t{1} << 16;
    buffer_.resize(probe);
    transfer(probe);
    double rate = static_cast<double>(probe) / transfer(probe);
    check(share(&rate), "MPI_Send");
    const auto bytes = static_cast<std::size_t>(std::clamp(rate * 0.05, 262144.0, 4194304.0));
    buffer_.resize(bytes);
    std::vector<double> samples;
    for (const double end = PMPI_Wtime() + 0.5; keep_going(samples.size(), 3, 20, end);) {
      samples.push_back(transfer(bytes));
    }
    return static_cast<double>(bytes) / typical(samples);
  }

 private:
  // The first rank's figure for both, so that both transfer the same bytes.
  int share(double* value) {
    return first_ ? PMPI_Send(value, 1, MPI_DOUBLE, partner_, tag, comm_)
                  : PMPI_Recv(value, 1, MPI_DOUBLE, partner_, tag, comm_, MPI_STATUS_IGNORE);
  }

  double transfer(std::size_t bytes) {
    char done = 0;
    const double start = PMPI_Wtime();
    if (first_) {
      send(buffer_.data(), bytes);
      receive(&done, 1);
    } else {
      receive(buffer_.data(), bytes);
      send(&done, 1);
    }
    return std::max(PMPI_Wtime() - start, least_time);
  }

  // Both ranks must agree whether there is another round: the first one decides.
  bool keep_going(std::size_t done, std::size_t least, std::size_t most, double end) {
    char more = done < least || (done < most && PMPI_Wtime() < end) ? 1 : 0;
    first_ ? send(&more, 1) : receive(&more, 1);
    return more != 0;
  }

  void send(const char* data, std::size_t bytes) {
    check(PMPI_Send(data, static_cast<int>(bytes), MPI_CHAR, partner_, tag, comm_), "MPI_Send");
  }
  void receive(char* data, std::size_t bytes) {
    check(PMPI_Recv(data, static_cast<int>(bytes), MPI_CHAR, partner_, tag, comm_, MPI_STATUS_IGNORE),
          "MPI_Recv");
  }

  MPI_Comm comm_;
  int partner_;
  bool first_;
  std::vector<char> buffer_;
};

// Arithmetic for about a millisecond.
double work(int rounds) {
  volatile double value = 1;
  const double start = PMPI_Wtime();
  for (int i = 0; i < rounds * 100000; ++i) {
    value = value * 0.999 + 0.001;
  }
  return PMPI_Wtime() - start;
}

class Machine {
 public:
  Machine(MPI_Comm comm, const Topology& topology) : comm_(comm), topology_(topology) {
    check(PMPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  }

  TunedLevel level(int index) {
    const Level& level = topology_.levels[static_cast<std::size_t>(index)];
    const std::vector<int> alone = pair_up(topology_, index, false);
    const std::vector<int> all = pair_up(topology_, index, true);
    TunedLevel tuned{level.name, level.groups, 0, 0, 0, 0};
    tuned.latency = of_first_pair(alone, &Pair::latency);
    tuned.message = of_first_pair(alone, &Pair::message);
    tuned.bandwidth = of_first_pair(alone, &Pair::bandwidth);
    const std::vector<double> rates = of_all(all, &Pair::bandwidth);
    double sum = 0;
    int senders = 0;
    for (const double rate : rates) {
      sum += rate;
      senders += rate > 0 ? 1 : 0;
    }
    tuned.shared_bandwidth = senders > 0 ? sum / senders : 0;
    if (index >= topology_.nic_level) {
      nic_ = std::max(nic_, nic_share(topology_, rates));
    }
    return tuned;
  }

  // A level without a pair of its own (every rank a group) has no figures: those of the next slower one stand
  // in.
  std::vector<TunedLevel> levels(const TuneProgress& progress) {
    std::vector<TunedLevel> tuned;
    for (std::size_t i = 0; i < topology_.levels.size(); ++i) {
      progress("level " + topology_.levels[i].name);
      tuned.push_back(level(static_cast<int>(i)));
    }
    const TunedLevel alone{"", 0, 1e-6, 1e9, 1e9, 1e-6};  // one rank: nothing is sent, any figure will do
    for (std::size_t i = tuned.size(); i-- > 0;) {
      if (tuned[i].latency <= 0) {
        const TunedLevel& from = i + 1 < tuned.size() ? tuned[i + 1] : alone;
        tuned[i] = {tuned[i].name,  tuned[i].groups,       from.latency,
                    from.bandwidth, from.shared_bandwidth, from.message};
      }
    }
    return tuned;
  }

  [[nodiscard]] double nic() const { return nic_; }

  // How much longer the same work takes when every rank does it.
  double cores_per_rank() {
    double alone = 0;
    sleepy_barrier(comm_);
    if (rank_ == 0) {
      work(1);
      alone = work(20);
    }
    sleepy_barrier(comm_);
    check(PMPI_Bcast(&alone, 1, MPI_DOUBLE, 0, comm_), "MPI_Bcast");
    double together = work(20);
    check(PMPI_Allreduce(MPI_IN_PLACE, &together, 1, MPI_DOUBLE, MPI_SUM, comm_), "MPI_Allreduce");
    return std::clamp(alone * topology_.ranks / std::max(together, least_time), 1.0 / topology_.ranks, 1.0);
  }

  // Copies of 4 KiB pieces out of 4 MiB, the slowest rank's rate, one rank alone.
  double copy() {
    sleepy_barrier(comm_);
    double rate = 0;
    if (rank_ == 0) {
      constexpr std::size_t total = std::size_t{4} << 20;
      constexpr std::size_t piece = 4096;
      std::vector<char> from(total, 1);
      std::vector<char> to(total, 2);
      std::vector<double> samples;
      for (int i = 0; i < 9; ++i) {
        const double start = PMPI_Wtime();
        for (std::size_t at = 0; at < total; at += piece) {
          std::memcpy(to.data() + at, from.data() + (at * 37) % total, piece);
        }
        samples.push_back(PMPI_Wtime() - start);
      }
      rate = static_cast<double>(total) / typical(samples);
    }
    sleepy_barrier(comm_);
    check(PMPI_Bcast(&rate, 1, MPI_DOUBLE, 0, comm_), "MPI_Bcast");
    return rate;
  }

 private:
  using Figure = double (Pair::*)();

  // Figures of the first rank of each pair, 0 for all others; the same on all ranks.
  std::vector<double> of_all(const std::vector<int>& partners, Figure figure) {
    const int partner = partners[static_cast<std::size_t>(rank_)];
    double mine = 0;
    sleepy_barrier(comm_);
    if (partner >= 0) {
      const double measured = (Pair(comm_, rank_, partner).*figure)();
      mine = rank_ < partner ? measured : 0;
    }
    sleepy_barrier(comm_);
    std::vector<double> figures(partners.size());
    check(PMPI_Allgather(&mine, 1, MPI_DOUBLE, figures.data(), 1, MPI_DOUBLE, comm_), "MPI_Allgather");
    return figures;
  }
  double of_first_pair(const std::vector<int>& partners, Figure figure) {
    const std::vector<double> figures = of_all(partners, figure);
    return *std::max_element(figures.begin(), figures.end());
  }

  MPI_Comm comm_;
  const Topology& topology_;
  int rank_ = 0;
  double nic_ = 0;
};

// Names of all hosts, each once.
std::string hosts(MPI_Comm comm, int ranks) {
  constexpr std::size_t length = 64;
  std::array<char, length> mine{};
  gethostname(mine.data(), length - 1);
  std::vector<char> all(length * static_cast<std::size_t>(ranks));
  check(PMPI_Allgather(mine.data(), length, MPI_CHAR, all.data(), length, MPI_CHAR, comm), "MPI_Allgather");
  std::set<std::string> names;
  for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
    names.insert(all.data() + r * length);
  }
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + name;
  }
  return plain_text(list, 4000);
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

}  // namespace

Tuning measure_machine(MPI_Comm comm, const Topology& topology, const TuneProgress& progress) {
  Tuning tuning;
  tuning.ranks = topology.ranks;
  tuning.machine = hosts(comm, topology.ranks);
  tuning.date = now();
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  PMPI_Get_library_version(version.data(), &length);
  const std::string first_line(version.data(), std::strcspn(version.data(), "\r\n"));
  tuning.mpi = plain_text(first_line, 4000);  // MPICH's has a tab
  Machine machine(comm, topology);
  progress("cores and memory");
  tuning.cores_per_rank = machine.cores_per_rank();
  tuning.copy = machine.copy();
  tuning.levels = machine.levels(progress);
  tuning.nic_bandwidth = machine.nic();
  return tuning;
}

}  // namespace tapa
