// What TAPA_Last_error() says of calls that MPI carries out and that fail there: when they start, and when
// they are completed. Two ranks or more. PMPI_Request_get_status is this program's, so that a call can fail.
#include <dlfcn.h>
#include <mpi.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "checks.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

bool fails = false;

void expect_words(int code, const std::string& function) {
  expect(code != MPI_SUCCESS, function + ": no error");
  const std::string text = TAPA_Last_error();
  expect(text.starts_with(function + ": ") && text.size() > function.size() + 2,
         function + ": got \"" + text + "\"");
}

std::string in_handler;

void note_words(MPI_Comm*, int*, ...) {
  in_handler = TAPA_Last_error();
  TAPA_Comm_setup(MPI_COMM_NULL);  // a call of the handler's own
}

/// MPI calls the error handler before it returns, and that handler may be all that the program sees of the
/// call.
void told_to_handler(MPI_Comm inter) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(note_words, &handler);
  MPI_Comm_set_errhandler(inter, handler);
  MPI_Errhandler_free(&handler);
  int data = 0;
  const int code = TAPA_Alltoall(&data, -1, MPI_INT, &data, 1, MPI_INT, inter);
#ifndef OPEN_MPI
  if (code != MPI_SUCCESS)  // MPICH's calls succeed when a handler returns
#endif
    expect_words(code, "TAPA_Alltoall");
  expect(in_handler.starts_with("TAPA_Alltoall: "), "in the error handler: got \"" + in_handler + "\"");
  MPI_Comm_set_errhandler(inter, tapa::errors_return());
}

/// Which MPI carries out for us, as it has no large counts.
void handed_over(MPI_Comm comm) {
  const auto ranks = static_cast<std::size_t>(size_of(comm));
  std::vector<int> out(ranks);
  std::vector<int> in(ranks);
  const std::vector<MPI_Count> counts(ranks, 1);
  std::vector<MPI_Aint> displs;
  for (std::size_t r = 0; r < ranks; ++r) displs.push_back(static_cast<MPI_Aint>(r));
  MPI_Request request = MPI_REQUEST_NULL;
  fails = true;
  const int code = TAPA_Ialltoallv_c(out.data(), counts.data(), displs.data(), MPI_INT, in.data(),
                                     counts.data(), displs.data(), MPI_INT, comm, &request);
  expect_done(code, "start");
  const int ended = MPI_Wait(&request, MPI_STATUS_IGNORE);
  fails = false;
  expect_words(ended, "TAPA_Ialltoallv_c");
}

/// A persistent request of MPI's own, and one that cannot be started.
void started(MPI_Comm comm) {
  const int rank = rank_of(comm);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm inter = MPI_COMM_NULL;
  MPI_Comm_split(comm, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, comm, 1 - rank % 2, 0, &inter);
  told_to_handler(inter);
  std::vector<int> out(static_cast<std::size_t>(size_of(comm)));
  std::vector<int> in(out.size());
  MPI_Request request = MPI_REQUEST_NULL;
  expect_done(
      TAPA_Alltoall_init(out.data(), 1, MPI_INT, in.data(), 1, MPI_INT, inter, MPI_INFO_NULL, &request),
      "TAPA_Alltoall_init");
  int got = 0;
  std::array<MPI_Request, 2> none{};
  for (MPI_Request& receive : none) MPI_Irecv(&got, 1, MPI_INT, rank, 99, comm, &receive);
  expect_words(TAPA_Start(none.data()), "TAPA_Start");
  expect_done(TAPA_Start(&request), "TAPA_Start");
  expect_equal(TAPA_Last_error(), "", "after a start");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect_words(TAPA_Startall(1, none.data()), "TAPA_Startall");
  expect_words(TAPA_Startall(2, none.data()), "TAPA_Start");
  expect_done(TAPA_Startall(1, &request), "TAPA_Startall");
  expect_equal(TAPA_Last_error(), "", "after a start of several");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect_words(TAPA_Start(none.data()), "TAPA_Start");
  expect_done(TAPA_Request_free(&request), "TAPA_Request_free");
  expect_equal(TAPA_Last_error(), "", "after a request is freed");
  for (MPI_Request& receive : none) {
    MPI_Send(&rank, 1, MPI_INT, rank, 99, comm);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

}  // namespace

/// The call is complete, and MPI says that it failed.
extern "C" int PMPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  static const auto mpis =
      reinterpret_cast<decltype(&PMPI_Request_get_status)>(dlsym(RTLD_NEXT, "PMPI_Request_get_status"));
  const int code = mpis(request, flag, status);
  if (!fails || code != MPI_SUCCESS || *flag == 0) return code;
  PMPI_Wait(&request, MPI_STATUS_IGNORE);
  return MPI_ERR_TRUNCATE;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  MPI_Comm_set_errhandler(MPI_COMM_SELF, tapa::errors_return());
  if (MPI_VERSION < 4) handed_over(MPI_COMM_WORLD);
  started(MPI_COMM_WORLD);
  return finish("forwarded_errors");
}
