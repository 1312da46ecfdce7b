// Thousands of calls, communicators that come and go: nothing may grow. Live communicators, requests and
// datatypes are counted by replacing the PMPI calls that make and free them.
#include <mpi.h>
#include <unistd.h>

#include <fstream>

#include "checks.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

long communicators = 0;  // made less freed
long datatypes = 0;
long keyvals = 0;

long resident_kib() {
  std::ifstream file("/proc/self/statm");
  long total = 0;
  long resident = 0;
  file >> total >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/// KiB that `work` takes, on the rank where it takes most: in the first of eight rounds in which that is
/// allowed, as Intel MPI's own pools grow for some hundred communicators. A leak is one in all rounds.
template <class Work>
long growth_kib(long allowed, const Work& work) {
  long grown = 0;
  for (int round = 0; round < 8; ++round) {
    const long before = resident_kib();
    work();
    grown = resident_kib() - before;
    PMPI_Allreduce(MPI_IN_PLACE, &grown, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (grown <= allowed) break;
  }
  return grown;
}

void calls(MPI_Comm comm, int times) {
  const auto n = static_cast<std::size_t>(size_of(comm));
  std::vector<int> out(16 * n, rank_of(comm));
  std::vector<int> in(32 * n, -1);
  std::vector<int> counts(n, 4);
  std::vector<int> displs(n);
  for (std::size_t p = 0; p < n; ++p) displs[p] = static_cast<int>(16 * p);
  MPI_Datatype strided = MPI_DATATYPE_NULL;
  MPI_Type_vector(4, 1, 2, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  for (int i = 0; i < times; ++i) {
    const int k = 1 + i % 16;
    int code = TAPA_Alltoall(out.data(), k, MPI_INT, in.data(), k, MPI_INT, comm);
    expect(code == MPI_SUCCESS && in[0] == 0, "alltoall");
    if (i % 4 == 0) code = TAPA_Alltoall(out.data(), 4, MPI_INT, in.data(), 1, strided, comm);
    if (i % 4 == 1) {
      code = TAPA_Alltoallv(out.data(), counts.data(), displs.data(), MPI_INT, in.data(), counts.data(),
                            displs.data(), MPI_INT, comm);
    }
    expect(code == MPI_SUCCESS, "alltoallv or strided");
  }
  MPI_Type_free(&strided);
}

void no_growth_in_calls() {
  calls(MPI_COMM_WORLD, 500);
  const long before = communicators;
  const long grown = growth_kib(512, [] { calls(MPI_COMM_WORLD, 10000); });
  expect(communicators == before, "10,000 calls made communicators");
  expect(datatypes == 0, "10,000 calls left " + std::to_string(datatypes) + " datatypes");
  expect(grown <= 512, "10,000 calls took " + std::to_string(grown) + " KiB");
}

void no_growth_in_communicators() {
  const auto cycle = [] {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    calls(copy, 2);
    PMPI_Comm_free(&copy);
  };
  const long before = communicators;
  long cycles = 0;
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) cycle();
    cycles += times;
  };
  run(50);
  const long grown = growth_kib(1024, [&] { run(300); });
  // Each cycle frees the duplicate, which MPI_Comm_dup made uncounted, and the library's own.
  expect(communicators == before - cycles,
         "communicators left: " + std::to_string(communicators - before + cycles));
  expect(grown <= 1024, "300 communicators took " + std::to_string(grown) + " KiB");
}

}  // namespace

extern "C" {
int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm* copy, MPI_Request* request) {
  ++communicators;
  return MPI_Comm_idup(comm, copy, request);
}
int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* made) {
  ++communicators;
  return MPI_Comm_create(comm, group, made);
}
int PMPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  ++communicators;
  return MPI_Comm_dup(comm, copy);
}
int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* part) {
  ++communicators;
  return MPI_Comm_split(comm, color, key, part);
}
int PMPI_Comm_free(MPI_Comm* comm) {
  --communicators;
  return MPI_Comm_free(comm);
}
int PMPI_Type_dup(MPI_Datatype type, MPI_Datatype* copy) {
  ++datatypes;
  return MPI_Type_dup(type, copy);
}
int PMPI_Type_free(MPI_Datatype* type) {
  --datatypes;
  return MPI_Type_free(type);
}
int PMPI_Type_create_keyval(MPI_Type_copy_attr_function* copy, MPI_Type_delete_attr_function* end,
                            int* keyval, void* extra) {
  ++keyvals;
  return MPI_Type_create_keyval(copy, end, keyval, extra);
}
}

int main(int argc, char** argv) {
  PMPI_Init(&argc, &argv);
  no_growth_in_calls();
  no_growth_in_communicators();
  expect(keyvals <= 1, "one keyval for datatypes");
  return finish("endurance_test");
}
