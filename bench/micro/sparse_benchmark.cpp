/// @file
/// A sparse exchange, in which ranks know to whom they send but not who sends to them, against what programs
/// do without it: MPI_Alltoall of the counts and MPI_Alltoallv, and the consensus of Hoefler et al. (NBX).
/// All of them bring the same, which is compared.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <vector>

#include "common/driver.hpp"
#include "common/race.hpp"
#include "common/statistics.hpp"
#include "tapa/tapa.h"
#include "version_flag.hpp"

namespace {

using namespace tapa::bench;
using Bytes = std::vector<char>;

/// The pattern as a rank sees it: a few ranks at odd distances.
class Job {
 public:
  Job(MPI_Comm comm, int destinations, std::size_t bytes) : comm_(comm), bytes_(bytes) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    for (int i = 0, at = 1; i < std::min(destinations, size_); ++i, at += 2 * i + 1) {
      int to = (rank_ + at) % size_;
      while (std::ranges::find(to_, to) != to_.end()) to = (to + 1) % size_;
      to_.push_back(to);
    }
    counts_.assign(to_.size(), static_cast<MPI_Count>(bytes));
    send_.assign(to_.size() * bytes, static_cast<char>(rank_ + 1));
    for (std::vector<int>* each : {&out_, &in_, &out_at_, &in_at_})
      each->resize(static_cast<std::size_t>(size_));
    requests_.resize(to_.size());
  }

  void by_tapa() {
    TAPA_Received received = TAPA_RECEIVED_NULL;
    if (TAPA_Sparse_exchange(send_.data(), static_cast<int>(to_.size()), to_.data(), counts_.data(), MPI_CHAR,
                             comm_, &received) != MPI_SUCCESS)
      MPI_Abort(comm_, 1);
    int sources = 0;
    const MPI_Count* counts = nullptr;
    const void* data = nullptr;
    TAPA_Received_get(received, &sources, nullptr, &counts, &data);
    note(static_cast<const char*>(data), std::accumulate(counts, counts + sources, MPI_Count{0}));
    TAPA_Received_free(&received);
  }

  void by_counts() {
    std::ranges::fill(out_, 0);
    int at = 0;
    for (const int to : to_) {
      out_[static_cast<std::size_t>(to)] = static_cast<int>(bytes_);
      out_at_[static_cast<std::size_t>(to)] = at;
      at += static_cast<int>(bytes_);
    }
    PMPI_Alltoall(out_.data(), 1, MPI_INT, in_.data(), 1, MPI_INT, comm_);
    std::exclusive_scan(in_.begin(), in_.end(), in_at_.begin(), 0);
    Bytes recv(static_cast<std::size_t>(in_at_.back() + in_.back()));
    PMPI_Alltoallv(send_.data(), out_.data(), out_at_.data(), MPI_CHAR, recv.data(), in_.data(),
                   in_at_.data(), MPI_CHAR, comm_);
    note(recv.data(), static_cast<MPI_Count>(recv.size()));
  }

  void by_nbx() {
    const int tag = static_cast<int>(calls_++ % 2);
    for (std::size_t i = 0; i < to_.size(); ++i)
      PMPI_Issend(send_.data() + i * bytes_, static_cast<int>(bytes_), MPI_CHAR, to_[i], tag, comm_,
                  &requests_[i]);
    Bytes recv;
    MPI_Request barrier = MPI_REQUEST_NULL;
    bool entered = false;
    for (int done = 0; done == 0;) {
      int found = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      PMPI_Improbe(MPI_ANY_SOURCE, tag, comm_, &found, &message, &status);
      if (found != 0) {
        int bytes = 0;
        PMPI_Get_count(&status, MPI_CHAR, &bytes);
        recv.resize(recv.size() + static_cast<std::size_t>(bytes));
        PMPI_Mrecv(recv.data() + recv.size() - bytes, bytes, MPI_CHAR, &message, MPI_STATUS_IGNORE);
      } else if (entered) {
        PMPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
      } else {
        int sent = 0;
        PMPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &sent, MPI_STATUSES_IGNORE);
        if (sent != 0) PMPI_Ibarrier(comm_, &barrier);
        entered = sent != 0;
      }
    }
    note(recv.data(), static_cast<MPI_Count>(recv.size()));
  }

  /// Whether all ways have brought as much of the same.
  [[nodiscard]] bool right() const { return right_; }

 private:
  void note(const char* data, MPI_Count bytes) {
    const long sum = std::accumulate(data, data + bytes, 0L);
    if (first_) {
      sum_ = sum;
      received_ = bytes;
    }
    first_ = false;
    right_ = right_ && sum == sum_ && bytes == received_;
  }

  MPI_Comm comm_;
  std::size_t bytes_;
  int rank_ = 0;
  int size_ = 0;
  unsigned calls_ = 0;
  std::vector<int> to_;
  std::vector<MPI_Count> counts_;
  Bytes send_;
  std::vector<int> out_, in_, out_at_, in_at_;  // by rank
  std::vector<MPI_Request> requests_;
  bool first_ = true;
  bool right_ = true;
  long sum_ = 0;
  MPI_Count received_ = 0;
};

bool run(MPI_Comm comm, int destinations, std::size_t bytes, double seconds) {
  Job job(comm, destinations, bytes);
  Options options;
  options.seconds = seconds;
  const auto times = race(comm,
                          {{"TAPA_Sparse_exchange", true, false, [&] { job.by_tapa(); }},
                           {"MPI_Alltoall + MPI_Alltoallv", false, false, [&] { job.by_counts(); }},
                           {"NBX", false, false, [&] { job.by_nbx(); }}},
                          options, bytes);
  int right = job.right() ? 1 : 0;
  PMPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_LAND, comm);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (rank != 0) return right != 0;
  double us[3];
  for (std::size_t i = 0; i < 3; ++i) us[i] = 1e6 * summarize(times[i].slowest).median;
  std::printf("%-10zu %12d %12.2f %18.2f %12.2f %10.2f %10.2f%s\n", bytes, destinations, us[0], us[1], us[2],
              us[1] / us[0], us[2] / us[0], right != 0 ? "" : "   WRONG");
  std::fflush(stdout);
  return right != 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  CLI::App app("Sparse exchange: microseconds, medians of the slowest rank's", "tapa_sparse_benchmark");
  tapa::add_version_flag(app);
  std::vector<int> destinations{1, 3, 8};
  std::vector<std::size_t> sizes{8, 256, 4096, 65536};
  double seconds = 2;
  app.add_option("--destinations", destinations, "ranks that each rank sends to")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--bytes", sizes, "bytes of a message")
      ->check(CLI::Range(0, 1 << 26))
      ->capture_default_str();
  app.add_option("--time", seconds, "seconds of a row")->check(CLI::PositiveNumber)->capture_default_str();
  int code = 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    code = app.exit(e);
    MPI_Finalize();
    return code;
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    std::printf("%-10s %12s %12s %18s %12s %10s %10s\n", "# bytes", "destinations", "TAPA", "alltoall + v",
                "NBX", "of counts", "of NBX");
  for (const std::size_t bytes : sizes) {
    for (const int number : destinations)
      if (!run(MPI_COMM_WORLD, number, bytes, seconds)) code = 1;
  }
  MPI_Finalize();
  return code;
}
