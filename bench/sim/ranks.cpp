// What every simulated rank runs: each contender's all-to-all at each size, checked where it has data, timed.
#include <dlfcn.h>
#include <mpi.h>
#include <smpi/smpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/exchange.hpp"
#include "plan/planner.hpp"
#include "run/executor.hpp"
#include "sim_transport.hpp"

namespace {

using namespace tapa;
using namespace tapa::sim;

World& find_world() {
  void* const platform = dlopen(std::getenv("TAPA_SIM_PLATFORM"), RTLD_NOW | RTLD_NOLOAD);
  const auto look_up = reinterpret_cast<World* (*)()>(dlsym(platform, "tapa_sim_world"));
  return *look_up();
}

/// Address space; memory only where it is touched.
class Area {
 public:
  explicit Area(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
    void* const at =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) std::abort();
    data_ = static_cast<std::byte*>(at);
  }
  ~Area() { munmap(data_, bytes_); }
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

/// One rank's part in one exchange.
class Exchange {
 public:
  Exchange(World& world, int rank, std::size_t bytes)
      : world_(world),
        rank_(rank),
        ranks_(world.job.topology.ranks),
        bytes_(bytes),
        send_(static_cast<std::size_t>(ranks_) * bytes),
        recv_(static_cast<std::size_t>(ranks_) * bytes) {
    if (!world.has_data) return;
    for (int dst = 0; dst < ranks_; ++dst) {
      for (std::size_t i = 0; i < bytes_; ++i) {
        at(send_, dst)[i] = std::byte{bench::pattern(1, rank_, dst, i)};
        at(recv_, dst)[i] = std::byte{bench::poison};
      }
    }
  }

  void run(const std::string& contender) {
    if (contender == "mpi") {
      start();
      MPI_Alltoall(send_.data(), static_cast<int>(bytes_), MPI_BYTE, recv_.data(), static_cast<int>(bytes_),
                   MPI_BYTE, MPI_COMM_WORLD);
      end();
      return;
    }
    const auto plan = std::make_shared<RankPlan>(
        plan_rank(world_.job.topology, Counts::uniform(ranks_, bytes_), parse_choice(contender), rank_));
    auto owned = std::make_unique<SimTransport>(MPI_COMM_WORLD, rank_, *plan, world_);
    SimTransport& transport = *owned;
    Executor executor(plan, std::move(owned));
    std::vector<const std::byte*> send;
    std::vector<std::byte*> recv;
    for (int r = 0; r < ranks_; ++r) {
      send.push_back(at(send_, r));
      recv.push_back(at(recv_, r));
    }
    executor.bind(send, recv);
    start();
    executor.start(1);
    executor.wait();
    transport.pay();
    end();
  }

  [[nodiscard]] double seconds() const { return seconds_; }

  [[nodiscard]] double wrong_bytes() const {
    std::size_t wrong = 0;
    for (int src = 0; src < ranks_; ++src) {
      for (std::size_t i = 0; i < bytes_; ++i)
        wrong += at(recv_, src)[i] != std::byte{bench::pattern(1, src, rank_, i)} ? 1 : 0;
    }
    return static_cast<double>(wrong);
  }

 private:
  [[nodiscard]] std::byte* at(const Area& area, int block) const {
    return area.data() + static_cast<std::size_t>(block) * bytes_;
  }

  /// All ranks begin at the same instant, which a barrier alone does not give.
  void start() {
    MPI_Barrier(MPI_COMM_WORLD);
    const double now = MPI_Wtime();
    double latest = 0;
    MPI_Allreduce(&now, &latest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    started_ = latest + 1e-2;
    smpi_execute_benched(started_ - MPI_Wtime());
    if (world_.started++ == 0) std::fill(world_.nic_bytes.begin(), world_.nic_bytes.end(), 0.0);
  }

  void end() {
    seconds_ = MPI_Wtime() - started_;
    if (++world_.ended < ranks_) return;
    world_.started = world_.ended = 0;
    for (const double bytes : world_.nic_bytes) world_.busiest_nic = std::max(world_.busiest_nic, bytes);
  }

  World& world_;
  int rank_;
  int ranks_;
  std::size_t bytes_;
  Area send_, recv_;
  double started_ = 0;
  double seconds_ = 0;
};

void measure(World& world, int rank, const std::string& contender, std::size_t bytes, std::FILE* results) {
  const auto ranks = static_cast<std::size_t>(world.job.topology.ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    world.has_data = bytes <= world.job.data_limit / ranks / ranks;
    world.charges_receives = !world.eager_sends && contender != "mpi";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Exchange exchange(world, rank, bytes);
  if (rank == 0) world.busiest_nic = 0;
  exchange.run(contender);
  const double seconds = exchange.seconds();
  const double wrong = world.has_data ? exchange.wrong_bytes() : 0;
  double slowest = 0;
  double all_wrong = 0;
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (results == nullptr) return;
  std::fprintf(results, "%s %zu %.13e %.0f %.0f %d\n", contender.c_str(), bytes, slowest, world.busiest_nic,
               all_wrong, world.has_data ? 1 : 0);
  std::fflush(results);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  World& world = find_world();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::FILE* const results = rank == 0 ? std::fopen(world.job.results.c_str(), "a") : nullptr;
  for (const std::string& contender : world.job.contenders) {
    for (const std::size_t bytes : world.job.bytes) measure(world, rank, contender, bytes, results);
  }
  if (results != nullptr) std::fclose(results);
  MPI_Finalize();
  return 0;
}
