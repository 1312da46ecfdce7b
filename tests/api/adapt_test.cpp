// TAPA_ADAPT: whatever plan is being tried or was kept, results are right, and all ranks keep the same one.
#include <mpi.h>

#include "checks.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

void uniform(MPI_Comm comm, int n, int call) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  std::vector<std::int32_t> send, recv(static_cast<std::size_t>(n * size), kGuard);
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) send.push_back(value(rank, p, i) + call);
  }
  expect(TAPA_Alltoall(send.data(), n, MPI_INT, recv.data(), n, MPI_INT, comm) == MPI_SUCCESS,
         TAPA_Last_error());
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) {
      if (recv[static_cast<std::size_t>(p * n + i)] == value(p, rank, i) + call) continue;
      return fail("call " + std::to_string(call) + " of " + std::to_string(n) +
                  " ints: wrong data from rank " + std::to_string(p));
    }
  }
}

int ragged(int src, int dst) {
  return 20 + (src * 3 + dst * 5) % 4;
}

void varying(MPI_Comm comm, int call) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  std::vector<int> sendcounts, sdispls, recvcounts, rdispls;
  std::vector<std::int32_t> send;
  int received = 0;
  for (int p = 0; p < size; ++p) {
    sdispls.push_back(static_cast<int>(send.size()));
    rdispls.push_back(received);
    sendcounts.push_back(ragged(rank, p));
    recvcounts.push_back(ragged(p, rank));
    received += ragged(p, rank);
    for (int i = 0; i < ragged(rank, p); ++i) send.push_back(value(rank, p, i) + call);
  }
  std::vector<std::int32_t> recv(static_cast<std::size_t>(received), kGuard);
  expect(TAPA_Alltoallv(send.data(), sendcounts.data(), sdispls.data(), MPI_INT, recv.data(),
                        recvcounts.data(), rdispls.data(), MPI_INT, comm) == MPI_SUCCESS,
         TAPA_Last_error());
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < ragged(p, rank); ++i) {
      if (recv[static_cast<std::size_t>(rdispls[static_cast<std::size_t>(p)] + i)] ==
          value(p, rank, i) + call)
        continue;
      return fail("call " + std::to_string(call) + " of v: wrong data from rank " + std::to_string(p));
    }
  }
}

std::string plan_for(MPI_Comm comm, std::size_t bytes) {
  char plan[200] = {};
  int length = 0;
  expect(TAPA_Comm_plan(comm, bytes, plan, sizeof plan, &length) == MPI_SUCCESS, TAPA_Last_error());
  std::string text(sizeof plan, '\0');
  std::copy(plan, plan + sizeof plan, text.begin());
  std::string of_rank_0 = text;
  MPI_Bcast(of_rank_0.data(), static_cast<int>(of_rank_0.size()), MPI_CHAR, 0, comm);
  expect(text == of_rank_0, "ranks keep different plans: " + text + " and " + of_rank_0);
  return plan;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // Every fourth call is of another size or form, as programs mix them; one rank is now and then late.
  for (int call = 0; call < 200; ++call) {
    if (call % 7 == 0 && call % size_of(MPI_COMM_WORLD) == rank_of(MPI_COMM_WORLD)) {
      for (const double end = MPI_Wtime() + 2e-4; MPI_Wtime() < end;) {
      }
    }
    if (call % 4 == 1) {
      varying(MPI_COMM_WORLD, call);
    } else {
      uniform(MPI_COMM_WORLD, call % 4 == 3 ? 1000 : 4, call);
    }
    if (call % 50 == 49) plan_for(MPI_COMM_WORLD, 16);
  }
  const std::string kept = plan_for(MPI_COMM_WORLD, 16);
  expect(!kept.empty(), "no plan");
  if (rank_of(MPI_COMM_WORLD) == 0) std::printf("kept for 16 bytes: %s\n", kept.c_str());
  return finish("adapt_test");
}
