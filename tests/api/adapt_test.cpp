// TAPA_PLAN=auto and model: whatever plan is being probed or was kept, results are right, and all ranks keep
// the same one.
#include <mpi.h>

#include <array>

#include "checks.hpp"
#include "tapa/errors_return.hpp"
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
  expect_done(TAPA_Alltoall(send.data(), n, MPI_INT, recv.data(), n, MPI_INT, comm));
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
  expect_done(TAPA_Alltoallv(send.data(), sendcounts.data(), sdispls.data(), MPI_INT, recv.data(),
                             recvcounts.data(), rdispls.data(), MPI_INT, comm));
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
  expect_done(TAPA_Comm_plan(comm, bytes, plan, sizeof plan, &length));
  std::string text(sizeof plan, '\0');
  std::copy(plan, plan + sizeof plan, text.begin());
  std::string of_rank_0 = text;
  MPI_Bcast(of_rank_0.data(), static_cast<int>(of_rank_0.size()), MPI_CHAR, 0, comm);
  expect(text == of_rank_0, "ranks keep different plans: " + text + " and " + of_rank_0);
  return plan;
}

/// Small blocks of which every other rank spreads what it receives: MPI's algorithms may get that wrong.
void spread(MPI_Comm comm, int call) {
  constexpr int n = 4;
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  const int stride = rank % 2 == 0 ? 1 : 3;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(n, 1, stride, MPI_INT, &type);
  MPI_Type_commit(&type);
  std::vector<std::int32_t> send;
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) send.push_back(value(rank, p, i) + call);
  }
  const int extent = (n - 1) * stride + 1;
  std::vector<std::int32_t> recv(static_cast<std::size_t>(extent * size), kGuard);
  expect_done(TAPA_Alltoall(send.data(), n, MPI_INT, recv.data(), 1, type, comm));
  MPI_Type_free(&type);
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < extent; ++i) {
      const int wanted = i % stride == 0 ? value(p, rank, i / stride) + call : kGuard;
      if (recv[static_cast<std::size_t>(p * extent + i)] == wanted) continue;
      return fail("call " + std::to_string(call) + ": wrong data in or beside a vector from rank " +
                  std::to_string(p));
    }
  }
}

void in_place(MPI_Comm comm, int n, int call) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  std::vector<std::int32_t> data;
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) data.push_back(value(rank, p, i) + call);
  }
  expect_done(TAPA_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data(), n, MPI_INT, comm));
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) {
      if (data[static_cast<std::size_t>(p * n + i)] == value(p, rank, i) + call) continue;
      return fail("call " + std::to_string(call) + " in place: wrong data from rank " + std::to_string(p));
    }
  }
}

/// Nonblocking and persistent calls take what the blocking ones have found, in the same order on all ranks.
void requests(MPI_Comm comm, int n, int call) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  std::vector<std::int32_t> send, first(static_cast<std::size_t>(n * size), kGuard);
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) send.push_back(value(rank, p, i) + call);
  }
  std::vector<std::int32_t> second = first;
  std::array<MPI_Request, 2> both{};
  expect_done(TAPA_Ialltoall(send.data(), n, MPI_INT, first.data(), n, MPI_INT, comm, &both[0]));
  expect_done(
      TAPA_Alltoall_init(send.data(), n, MPI_INT, second.data(), n, MPI_INT, comm, MPI_INFO_NULL, &both[1]));
  expect_done(TAPA_Start(&both[1]));
  uniform(comm, n, call);
  MPI_Waitall(2, both.data(), MPI_STATUSES_IGNORE);
  TAPA_Request_free(&both[1]);
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(p * n + i);
      if (first[at] == value(p, rank, i) + call && second[at] == first[at]) continue;
      return fail("call " + std::to_string(call) + " with requests: wrong data from rank " +
                  std::to_string(p));
    }
  }
}

/// All rows travel; its size class is that of varying().
void selected(MPI_Comm comm, TAPA_Selection selection, int rows, int call) {
  const int rank = rank_of(comm);
  const int size = size_of(comm);
  std::vector<std::int32_t> send, recv(static_cast<std::size_t>(rows * size), kGuard);
  std::vector<MPI_Aint> displs;
  for (int p = 0; p < size; ++p) {
    displs.push_back(p * rows);
    for (int i = 0; i < rows; ++i) send.push_back(value(rank, p, i) + call);
  }
  expect_done(TAPA_Alltoallv_select(send.data(), displs.data(), recv.data(), displs.data(),
                                    sizeof(std::int32_t), selection));
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < rows; ++i) {
      if (recv[static_cast<std::size_t>(p * rows + i)] == value(p, rank, i) + call) continue;
      return fail("call " + std::to_string(call) + " of rows: wrong data from rank " + std::to_string(p));
    }
  }
}

TAPA_Selection select_all(MPI_Comm comm, int rows) {
  const auto size = static_cast<std::size_t>(size_of(comm));
  const std::vector<int> each(size, rows);
  std::vector<int> active;
  for (std::size_t p = 0; p < size; ++p) {
    for (int i = 0; i < rows; ++i) active.push_back(i);
  }
  TAPA_Selection selection = TAPA_SELECTION_NULL;
  expect_done(TAPA_Selection_create(each.data(), each.data(), each.data(), active.data(), 0, "world", comm,
                                    &selection));
  return selection;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  constexpr int rows = 20;
  TAPA_Selection selection = select_all(MPI_COMM_WORLD, rows);
  // Sizes and forms in turn, as programs mix them; one rank is now and then late.
  for (int call = 0; call < 560; ++call) {
    if (call % 7 == 0 && call % size_of(MPI_COMM_WORLD) == rank_of(MPI_COMM_WORLD)) {
      for (const double end = MPI_Wtime() + 2e-4; MPI_Wtime() < end;) {
      }
    }
    switch (call % 8) {
      case 0:
      case 4:
        uniform(MPI_COMM_WORLD, 4, call);
        break;
      case 1:
        spread(MPI_COMM_WORLD, call);
        break;
      case 2:
      case 6:
        varying(MPI_COMM_WORLD, call);
        break;
      case 3:
        uniform(MPI_COMM_WORLD, 1000, call);
        break;
      case 5:
        in_place(MPI_COMM_WORLD, call % 3 == 0 ? 4 : 1000, call);
        break;
      default:
        if (call % 3 == 0) {
          selected(MPI_COMM_WORLD, selection, rows, call);
        } else if (call % 5 == 0) {
          requests(MPI_COMM_WORLD, call % 3 == 1 ? 4 : 1000, call);
        }
    }
    if (call % 50 == 49) plan_for(MPI_COMM_WORLD, 16);
  }
  TAPA_Selection_free(&selection);
  const std::string kept = plan_for(MPI_COMM_WORLD, 16);
  expect(!kept.empty(), "no plan");
  if (rank_of(MPI_COMM_WORLD) == 0) std::printf("kept for 16 bytes: %s\n", kept.c_str());
  return finish("adapt_test");
}
