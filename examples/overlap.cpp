// The C++ header: a persistent all-to-all that runs while the rank computes.
// mpirun -n 4 build/release/bin/examples/overlap
#include <cstdio>
#include <numeric>
#include <tapa/tapa.hpp>
#include <vector>

int run() {
  const auto comm = tapa::Communicator::duplicate(MPI_COMM_WORLD);  // its errors are thrown
  std::vector<int> send(static_cast<std::size_t>(comm.size()) * 1024);
  std::vector<int> recv(send.size());
  std::iota(send.begin(), send.end(), comm.rank());
  auto exchange = comm.alltoall_init(send, recv);  // planned once

  double sum = 0;
  for (int step = 0; step < 10; ++step) {
    exchange.start();
    for (int piece = 0; piece < 100; ++piece) {
      for (int i = 1; i < 1000; ++i) sum += 1.0 / (i * (piece + 1.0));
      (void)exchange.test();  // lets it advance
    }
    exchange.wait();
  }
  const bool right =
      recv[1024 * static_cast<std::size_t>(comm.size() - 1)] == comm.size() - 1 + 1024 * comm.rank();
  if (comm.rank() == 0) std::printf("10 exchanges beside the sum %.3f: %s\n", sum, right ? "right" : "wrong");
  return right ? 0 : 1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int result = 1;
  try {
    result = run();
  } catch (const tapa::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  MPI_Finalize();
  return result;
}
