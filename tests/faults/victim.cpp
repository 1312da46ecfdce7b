// A program that is broken from outside, or by itself: all-to-alls of one kind for some time, each with its
// data checked.
//
//   victim PHASE SECONDS [--refuse WHAT] [--who all|one|some] [--late] [--fork|--exec]
//
// PHASE: fresh, setup, small, large, blocks, nonblocking, persistent. WHAT: attach, memory-files,
// shared-mappings, threads, files, short-files, memory, descriptors, core-files; from the first call on, or
// --late. Each rank says "victim: rank R pid P" when it begins, and rank 0 "victim: right, N calls" at the
// end.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#ifdef HAVE_MPIX_PERSISTENT
#include <mpi-ext.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "refuse.hpp"

namespace {

int rank = 0;
int ranks = 1;
long wrong = 0;

int word_of(int from, int to, int i, int salt) {
  return ((from * 131 + to) * 131 + i) * 7 + salt;
}

/// Buffers of one all-to-all with `n` words for each pair.
struct Buffers {
  explicit Buffers(int words)
      : n(words), sent(static_cast<std::size_t>(words * ranks)), received(sent.size()) {}
  void fill(int salt) {
    for (int p = 0; p < ranks; ++p) {
      for (int i = 0; i < n; ++i) sent[static_cast<std::size_t>(p * n + i)] = word_of(rank, p, i, salt);
    }
    std::fill(received.begin(), received.end(), -1);
  }
  void check(int salt) const {
    for (int p = 0; p < ranks; ++p) {
      for (int i = 0; i < n; ++i)
        wrong += received[static_cast<std::size_t>(p * n + i)] != word_of(p, rank, i, salt) ? 1 : 0;
    }
  }
  int n;
  std::vector<int> sent, received;
};

void uniform(int words, int salt, MPI_Comm comm = MPI_COMM_WORLD) {
  Buffers b(words);
  b.fill(salt);
  MPI_Alltoall(b.sent.data(), words, MPI_INT, b.received.data(), words, MPI_INT, comm);
  b.check(salt);
}

void setup(int salt) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  for (int i = 0; i < 3; ++i) uniform(64, salt + i, comm);
  MPI_Comm_free(&comm);
}

void blocks(int salt) {
  Buffers b(700);
  b.fill(salt);
  std::vector<int> counts(static_cast<std::size_t>(ranks), b.n);
  std::vector<int> places(counts.size());
  for (int p = 0; p < ranks; ++p) places[static_cast<std::size_t>(p)] = p * b.n;
  MPI_Alltoallv(b.sent.data(), counts.data(), places.data(), MPI_INT, b.received.data(), counts.data(),
                places.data(), MPI_INT, MPI_COMM_WORLD);
  b.check(salt);
}

void nonblocking(int salt) {
  if (salt == 0) uniform(1, salt);  // which is set up then
  Buffers one(100);
  Buffers two(20'000);
  one.fill(salt);
  two.fill(salt + 1);
  MPI_Request requests[2];
  MPI_Ialltoall(one.sent.data(), one.n, MPI_INT, one.received.data(), one.n, MPI_INT, MPI_COMM_WORLD,
                &requests[0]);
  MPI_Ialltoall(two.sent.data(), two.n, MPI_INT, two.received.data(), two.n, MPI_INT, MPI_COMM_WORLD,
                &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  one.check(salt);
  two.check(salt + 1);
}

void persistent([[maybe_unused]] int salt) {
#if defined(HAVE_MPIX_PERSISTENT) || defined(HAVE_MPI_PERSISTENT)
#ifdef HAVE_MPIX_PERSISTENT
  const auto init = MPIX_Alltoall_init;
#else
  const auto init = MPI_Alltoall_init;
#endif
  Buffers b(2000);
  MPI_Request request = MPI_REQUEST_NULL;
  init(b.sent.data(), b.n, MPI_INT, b.received.data(), b.n, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int i = 0; i < 20; ++i) {
    b.fill(salt + i);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    b.check(salt + i);
  }
  MPI_Request_free(&request);
#else
  blocks(salt);
#endif
}

std::uint64_t address_space() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t pages = 0;
  in >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

bool refuse(const std::string& what) {
  if (what == "attach") return faults::refuse_call(SYS_process_vm_readv, EPERM);
  if (what == "memory-files") return faults::refuse_call(SYS_memfd_create, EPERM);
  if (what == "shared-mappings") return faults::refuse_shared_mappings();
  if (what == "threads")
    return faults::refuse_call(SYS_clone3, EAGAIN) && faults::refuse_call(SYS_clone, EAGAIN);
  if (what == "files") return faults::refuse_call(SYS_openat, EMFILE);
  if (what == "short-files") return faults::leave_short_files();
  if (what == "descriptors") return faults::leave_few_files();
  if (what == "memory") return faults::limit(RLIMIT_AS, address_space() + (std::uint64_t{48} << 20));
  std::fprintf(stderr, "victim: --refuse is %s, expected something else\n", what.c_str());
  return false;
}

/// A child that lives beside the all-to-alls, and one that becomes another program.
void have_child(bool exec) {
  const pid_t child = fork();
  if (child == 0) {
    if (exec) execl("/bin/true", "true", nullptr);
    usleep(2000);
    _exit(0);
  }
  uniform(5000, 3);
  int status = 0;
  TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  wrong += status != 0 ? 1 : 0;
}

struct Options {
  std::string phase;
  double seconds = 1;
  std::string refused;
  std::string who = "all";
  bool late = false;
  bool forks = false;
  bool execs = false;
};

Options read(int argc, char** argv) {
  Options o;
  o.phase = argc > 1 ? argv[1] : "";
  o.seconds = argc > 2 ? std::atof(argv[2]) : 1;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--refuse" && i + 1 < argc) o.refused = argv[++i];
    if (word == "--who" && i + 1 < argc) o.who = argv[++i];
    o.late = o.late || word == "--late";
    o.forks = o.forks || word == "--fork";
    o.execs = o.execs || word == "--exec";
  }
  return o;
}

bool is_chosen(const std::string& who) {
  return who == "all" || (who == "one" ? rank == ranks - 1 : rank % 2 == 1);
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = read(argc, argv);
  const std::map<std::string, std::function<void(int)>> phases{
      {"fresh", [](int salt) { uniform(4, salt); }},
      {"setup", setup},
      {"small", [](int salt) { uniform(16, salt); }},
      {"large", [](int salt) { uniform(100'000, salt); }},
      {"blocks", blocks},
      {"nonblocking", nonblocking},
      {"persistent", persistent},
  };
  if (!phases.contains(o.phase)) {
    std::fprintf(stderr, "usage: victim PHASE SECONDS ..., see the source\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Barrier(MPI_COMM_WORLD);  // what MPI itself needs is there
  // In one write, as lines of several ranks share a pipe.
  std::fprintf(stderr, "%s",
               ("victim: rank " + std::to_string(rank) + " pid " + std::to_string(getpid()) + "\n").c_str());
  const auto& call = phases.at(o.phase);
  const auto give_way = [&] {
    if (!o.refused.empty() && is_chosen(o.who) && !refuse(o.refused)) MPI_Abort(MPI_COMM_WORLD, 77);
  };
  if (!o.late) give_way();
  const double began = MPI_Wtime();
  long calls = 0;
  for (int go = 1; go != 0; ++calls) {
    call(static_cast<int>(calls));
    if (calls == 20 && o.late) give_way();
    if (calls % 10 == 5 && (o.forks || o.execs)) have_child(o.execs);
    if (calls % 32 != 0) continue;  // seldom, as nobody names who is late in MPI's own calls
    go = MPI_Wtime() - began < o.seconds || calls < 30 ? 1 : 0;
    MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  long all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    std::printf(all == 0 ? "victim: right, %ld calls\n" : "victim: WRONG after %ld calls\n", calls);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
