// Detection over a communicator: all ranks must get the same topology; errors must reach all ranks.
#include <mpi.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "topology/detect_mpi.hpp"
#include "topology/topology_file.hpp"

namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (good) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "rank %d: %s\n", rank, what);
  ++failures;
}

bool same_everywhere(std::string text) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string mine = text;
  unsigned long size = text.size();
  MPI_Bcast(&size, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
  text.resize(size);
  MPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, 0, MPI_COMM_WORLD);
  return text == mine;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  const tapa::Topology found = tapa::detect(MPI_COMM_WORLD, "");
  expect(found.check().empty(), found.check().c_str());
  expect(found.ranks == ranks, "wrong number of ranks");
  expect(found.nodes() == 1, "one machine is one node");
  expect(found.nic_level == static_cast<int>(found.levels.size()), "nothing crosses a NIC on one node");
  expect(found.sources.back().name == "mpi" && found.sources.back().used, "MPI sees the same node");
  expect(same_everywhere(tapa::write_topology(found)), "ranks differ");

  const tapa::Topology forced = tapa::detect(MPI_COMM_WORLD, "2x" + std::to_string(ranks / 2));
  expect(forced.nodes() == 2 && forced.sources.size() == 1, "override was not taken");
  expect(same_everywhere(tapa::write_topology(forced)), "ranks differ with an override");

  std::string message;
  try {
    (void)tapa::detect(MPI_COMM_WORLD, "3x5x7");
  } catch (const std::invalid_argument& error) {
    message = error.what();
  }
  expect(message == "TAPA_TOPOLOGY=3x5x7: the product is 105, expected the " + std::to_string(ranks) +
                        " ranks of the communicator",
         "wrong or missing error");

  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
