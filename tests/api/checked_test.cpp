// TAPA_CHECK, TAPA_TIMEOUT and TAPA_EXPLAIN: what they find and what they say. Four ranks. PMPI_Isend is
// replaced, so that a message can be damaged or held back on its way.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "checks.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

bool damage = false;  // damage the next message of this size
int damaged_bytes = 0;
bool held = false;  // hold messages of 100 bytes back

/// Runs something and returns what it wrote to stderr.
std::string stderr_of(const std::function<void()>& body) {
  char path[] = "/tmp/tapa_checked_XXXXXX";
  const int file = mkstemp(path);
  const int saved = dup(STDERR_FILENO);
  std::fflush(stderr);
  dup2(file, STDERR_FILENO);
  body();
  std::fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(file);
  std::ifstream stream(path);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  unlink(path);
  return text;
}

void set(MPI_Comm comm, const char* key, const char* value) {
  expect_done(TAPA_Comm_set(comm, key, value), std::string("option ") + key);
}

/// Rank 2 sends rank 1 four bytes more than rank 1 expects: all ranks are told the same.
void mismatched_counts(MPI_Comm comm) {
  const int rank = rank_of(comm);
  std::vector<int> sendcounts(4, 2);
  std::vector<int> recvcounts(4, 2);
  const std::vector<int> displs{0, 4, 8, 12};
  std::vector<int> out(16, rank);
  std::vector<int> in(16, -1);
  if (rank == 2) sendcounts[1] = 3;
  set(comm, "check", "counts");
  int code = TAPA_Alltoallv(out.data(), sendcounts.data(), displs.data(), MPI_INT, in.data(),
                            recvcounts.data(), displs.data(), MPI_INT, comm);
  expect(code == MPI_ERR_TRUNCATE, "mismatched counts are refused");
  expect_equal(TAPA_Last_error(), "TAPA_Alltoallv: rank 2 sends 12 bytes to rank 1, which expects 8",
               "message");
  // The communicator is as good as before.
  sendcounts[1] = 2;
  code = TAPA_Alltoallv(out.data(), sendcounts.data(), displs.data(), MPI_INT, in.data(), recvcounts.data(),
                        displs.data(), MPI_INT, comm);
  expect(code == MPI_SUCCESS && in[0] == 0 && in[13] == 3, "the next call is right");
  // Uniform blocks that differ between ranks.
  const int n = rank == 3 ? 4 : 2;
  code = TAPA_Alltoall(out.data(), n, MPI_INT, in.data(), n, MPI_INT, comm);
  expect(code == MPI_ERR_TRUNCATE, "different block sizes are refused");
  expect_equal(TAPA_Last_error(), "TAPA_Alltoall: rank 3 sends 16 bytes to rank 0, which expects 8",
               "message");
  set(comm, "check", "args");
}

/// Rank 0 damages a byte of what it sends to the ranks: each receiver notices its own.
void damaged_data(MPI_Comm comm) {
  const int rank = rank_of(comm);
  std::vector<std::int32_t> out(4 * 25);
  std::vector<std::int32_t> in(4 * 25, -1);
  for (int k = 0; k < 100; ++k) out[static_cast<std::size_t>(k)] = value(rank, k / 25, k % 25);
  set(comm, "plan", "linear");
  set(comm, "check", "data");
  expect(TAPA_Alltoall(out.data(), 25, MPI_INT32_T, in.data(), 25, MPI_INT32_T, comm) == MPI_SUCCESS,
         "sound data");
  damage = rank == 0;
  damaged_bytes = 100;
  const int code = TAPA_Alltoall(out.data(), 25, MPI_INT32_T, in.data(), 25, MPI_INT32_T, comm);
  int told = code == MPI_SUCCESS ? 0 : 1;
  if (told == 1) {
    const std::string start = "TAPA_Alltoall: the 100 bytes from rank 0 to rank " + std::to_string(rank);
    expect(std::string(TAPA_Last_error()).starts_with(start), std::string("message: ") + TAPA_Last_error());
  }
  MPI_Allreduce(MPI_IN_PLACE, &told, 1, MPI_INT, MPI_SUM, comm);
  expect(told == 1, "one damaged block is noticed by one rank, but was by " + std::to_string(told));
  damage = false;
  set(comm, "check", "args");
}

/// Rank 3 comes late: the others name it and nobody else, whoever carries the call out, and again when the
/// time has doubled.
void late_rank(MPI_Comm comm, const char* plan) {
  std::vector<int> out(4, rank_of(comm));
  std::vector<int> in(4, -1);
  set(comm, "plan", plan);
  set(comm, "timeout", "0.3");
  MPI_Barrier(comm);
  const std::string text = stderr_of([&] {
    if (rank_of(comm) == 3) usleep(2500000);
    TAPA_Alltoall(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, comm);
  });
  if (rank_of(comm) != 3) {
    expect(text.find("TAPA_Alltoall unfinished after ") != std::string::npos &&
               text.find(" s: waits for rank 3 to make the call\n") != std::string::npos,
           std::string(plan) + ", watchdog: " + text);
    const std::size_t first = text.find("unfinished after");
    expect(text.find("unfinished after", first + 1) != std::string::npos, "watchdog repeats itself: " + text);
  } else {
    expect(text.find("unfinished") == std::string::npos, "the late rank waits for nobody: " + text);
  }
  set(comm, "timeout", "0");
}

/// The messages of rank 0 come late, although it makes the call: the others say which, with level and phase.
void late_message(MPI_Comm comm) {
  std::vector<int> out(4 * 25, rank_of(comm));
  std::vector<int> in(4 * 25, -1);
  set(comm, "plan", "linear");
  set(comm, "timeout", "0.3");
  MPI_Barrier(comm);
  held = rank_of(comm) == 0;
  const std::string text =
      stderr_of([&] { TAPA_Alltoall(out.data(), 25, MPI_INT32_T, in.data(), 25, MPI_INT32_T, comm); });
  held = false;
  if (rank_of(comm) != 0) {
    expect(text.find("waits for rank 0 to send 100 bytes, level ") != std::string::npos, "watchdog: " + text);
    expect(text.find("phase \"") != std::string::npos, "watchdog names the phase: " + text);
  }
  set(comm, "timeout", "0");
}

/// One line for each new plan, on rank 0.
void explained(MPI_Comm comm) {
  std::vector<int> out(4 * 8, 1);
  std::vector<int> in(4 * 8, 0);
  set(comm, "plan", "model");
  set(comm, "explain", "1");
  const std::string text = stderr_of([&] {
    for (int i = 0; i < 3; ++i) TAPA_Alltoall(out.data(), 8, MPI_INT, in.data(), 8, MPI_INT, comm);
  });
  if (rank_of(comm) == 0) {
    expect(text.find("TAPA_Alltoall, 4 ranks, 32 B per pair: ") != std::string::npos, "explanation: " + text);
    expect(text.find("first run") != std::string::npos, "explanation has the measured time: " + text);
    expect(text.find('\n') == text.size() - 1, "one line only: " + text);
  } else {
    expect_equal(text, "", "only rank 0 explains");
  }
  set(comm, "explain", "0");
}

/// The fallback is announced once, by rank 0.
void announced_fallback(MPI_Comm comm) {
  std::vector<int> out(4, 1);
  std::vector<int> in(4, 0);
  set(comm, "plan", "tapa:split=galaxy");
  const std::string text = stderr_of([&] {
    for (int i = 0; i < 3; ++i) {
      expect(TAPA_Alltoall(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, comm) == MPI_SUCCESS, "fallback");
    }
  });
  if (rank_of(comm) == 0) {
    expect(text.find("plan tapa:split=galaxy cannot be carried out: ") != std::string::npos &&
               text.find("; MPI is used instead") != std::string::npos,
           "fallback: " + text);
    expect(text.find('\n') == text.size() - 1, "said once: " + text);
  } else {
    expect_equal(text, "", "only rank 0 announces");
  }
  set(comm, "plan", "auto");
}

}  // namespace

extern "C" int PMPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                          MPI_Request* request) {
  if (held && type == MPI_BYTE && count == 100) usleep(700000);
  if (damage && type == MPI_BYTE && count == damaged_bytes) {
    damage = false;
    static std::vector<char> copy;  // outlives the request
    copy.assign(static_cast<const char*>(data), static_cast<const char*>(data) + count);
    copy[static_cast<std::size_t>(count / 2)] ^= 1;
    return MPI_Isend(copy.data(), count, type, peer, tag, comm, request);
  }
  return MPI_Isend(data, count, type, peer, tag, comm, request);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  expect(size_of(MPI_COMM_WORLD) == 4, "this test is for four ranks");
  mismatched_counts(MPI_COMM_WORLD);
  damaged_data(MPI_COMM_WORLD);
  for (const char* plan : {"linear", "mpi", "tapa:split=node", "auto"}) late_rank(MPI_COMM_WORLD, plan);
  late_message(MPI_COMM_WORLD);
  explained(MPI_COMM_WORLD);
  announced_fallback(MPI_COMM_WORLD);
  return finish("checked_test");
}
