// One-sided communication.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "steps.hpp"

namespace random_program {

namespace {

/// Open MPI 4.1.4 gives windows of communicators of one number, as the pieces of a split have, one file while
/// it makes them: on a host communicators take turns.
class Turn {
 public:
  explicit Turn(const Comm& comm) : comm_(comm.comm) {
    MPI_Barrier(comm_);  // who waits for its turn holds nobody up
    if (comm.rank == 0) {
      file_ = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
      if (TEMP_FAILURE_RETRY(::flock(file_, LOCK_EX)) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(comm_);
  }
  ~Turn() {
    MPI_Barrier(comm_);
    if (file_ >= 0) ::close(file_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  MPI_Comm comm_;
  int file_ = -1;
};

}  // namespace

void make_window(const Line& line) {
  Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL || c.size == 1)
    return;  // Open MPI 4.1 has no windows of one rank without shared memory
  Window& w = object(windows, line.word("win"));
  w.comm = &c;
  const auto bytes = static_cast<MPI_Aint>(static_cast<std::size_t>(c.size + 1) * sizeof(std::uint64_t));
  if (line.word("kind") == "shared") {
    MPI_Win_allocate_shared(bytes, sizeof(std::uint64_t), MPI_INFO_NULL, c.comm,
                            static_cast<void*>(&w.memory), &w.win);
  } else {
    const Turn turn(c);
    MPI_Win_allocate(bytes, sizeof(std::uint64_t), MPI_INFO_NULL, c.comm, static_cast<void*>(&w.memory),
                     &w.win);
  }
}

void epoch(const Line& line) {
  const Window& w = object(windows, line.word("win"));
  if (w.win == MPI_WIN_NULL) return;
  const Comm& c = *w.comm;
  const bool fence = line.word("kind") == "fence";
  std::vector<std::uint64_t> words(static_cast<std::size_t>(c.size));
  const std::uint64_t one = 1;
  for (int r = 0; r <= c.size; ++r) w.memory[r] = 0;
  fence ? MPI_Win_fence(0, w.win) : MPI_Barrier(c.comm);
  if (!fence) MPI_Win_lock_all(0, w.win);
  for (int r = 0; r < c.size; ++r) {
    words[static_cast<std::size_t>(r)] = mixed(value_of(line, c, r), static_cast<std::uint64_t>(c.rank));
    MPI_Put(&words[static_cast<std::size_t>(r)], 1, MPI_UINT64_T, r, c.rank, 1, MPI_UINT64_T, w.win);
    MPI_Accumulate(&one, 1, MPI_UINT64_T, r, c.size, 1, MPI_UINT64_T, MPI_SUM, w.win);
  }
  if (!fence) MPI_Win_unlock_all(w.win);
  fence ? MPI_Win_fence(0, w.win) : MPI_Barrier(c.comm);
  if (!fence) MPI_Win_lock(MPI_LOCK_SHARED, c.rank, 0, w.win);
  bool right = w.memory[c.size] == static_cast<std::uint64_t>(c.size);
  for (int r = 0; r < c.size; ++r)
    right = right && w.memory[r] == mixed(value_of(line, c, c.rank), static_cast<std::uint64_t>(r));
  if (!fence) MPI_Win_unlock(c.rank, w.win);
  expect(line, right, "the window holds something else");
  MPI_Barrier(c.comm);
}

void free_window(const Line& line) {
  Window& w = object(windows, line.word("win"));
  if (w.win != MPI_WIN_NULL) MPI_Win_free(&w.win);
  drop(windows, line.word("win"));
}

}  // namespace random_program
