// An all-to-all of BYTES per pair, checked; every rank prints its number, host, how many share its node, and
// rails.
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int bytes = argc > 1 ? std::atoi(argv[1]) : 1024;
  const auto total = static_cast<std::size_t>(bytes) * static_cast<std::size_t>(size);
  std::vector<char> out(total);
  std::vector<char> in(total);
  for (std::size_t i = 0; i < total; ++i) out[i] = static_cast<char>(rank * 7 + static_cast<int>(i));
  MPI_Alltoall(out.data(), bytes, MPI_CHAR, in.data(), bytes, MPI_CHAR, MPI_COMM_WORLD);
  int wrong = 0;
  for (int source = 0; source < size; ++source) {
    for (int i = 0; i < bytes; ++i) {
      const char got = in[static_cast<std::size_t>(source * bytes + i)];
      wrong += got != static_cast<char>(source * 7 + rank * bytes + i) ? 1 : 0;
    }
  }
  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  const char* rate = std::getenv("TAPA_NIC_RATE");
  const char* nics = std::getenv("TAPA_NICS");
  const char* rails = std::getenv("OMPI_MCA_btl_tcp_if_include");
  MPI_Comm node = MPI_COMM_NULL;
  int together = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &together);
  MPI_Comm_free(&node);
  std::printf("rank %d host %s with %d rate %s nics %s rails %s wrong %d\n", rank, host.data(), together,
              rate != nullptr ? rate : "-", nics != nullptr ? nics : "-", rails != nullptr ? rails : "-",
              wrong);
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
