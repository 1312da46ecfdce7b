// A user's program in C++: exchanges one int with every rank and checks what came; an error is thrown.
#include <cstdio>
#include <tapa/tapa.hpp>
#include <vector>

namespace {

bool exchange_is_right() {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  std::vector<int> sent(static_cast<std::size_t>(comm.size()));
  std::vector<int> received(sent.size(), -1);
  for (int peer = 0; peer < comm.size(); ++peer)
    sent[static_cast<std::size_t>(peer)] = 1000 * comm.rank() + peer;
  comm.alltoall(sent, received);
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (received[static_cast<std::size_t>(peer)] != 1000 * peer + comm.rank()) return false;
  }
  return true;
}

bool error_is_thrown() {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);
  try {
    comm.set("no such option", "1");
  } catch (const tapa::Error&) {
    return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const bool right = exchange_is_right();
  const bool thrown = error_is_thrown();
  if (!right) std::puts("wrong data");
  if (!thrown) std::puts("no exception");
  if (!right || !thrown) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
}
