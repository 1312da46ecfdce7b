// TAPA_Alloc: wrong arguments, and all-to-alls from such memory, which comes and goes.
#include <mpi.h>

#include <cstring>

#include "checks.hpp"
#include "tapa/errors_return.hpp"
#include "tapa/tapa.h"

using namespace checks;

namespace {

class Memory {
 public:
  explicit Memory(std::size_t ints) {
    void* memory = nullptr;
    expect(TAPA_Alloc(static_cast<MPI_Aint>(ints * sizeof(std::int32_t)), &memory) == MPI_SUCCESS,
           "TAPA_Alloc");
    data_ = static_cast<std::int32_t*>(memory);
  }
  ~Memory() { expect(TAPA_Free(data_) == MPI_SUCCESS, "TAPA_Free"); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::int32_t* data() const { return data_; }

 private:
  std::int32_t* data_ = nullptr;
};

void fill(std::int32_t* blocks, int n, int rank, int size, int salt) {
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) blocks[p * n + i] = value(rank, p, i) + salt;
  }
}

void compare(const std::int32_t* blocks, int n, int rank, int size, int salt, const std::string& what) {
  for (int p = 0; p < size; ++p) {
    for (int i = 0; i < n; ++i) {
      if (blocks[p * n + i] == value(p, rank, i) + salt) continue;
      return fail(what + ": element " + std::to_string(i) + " from rank " + std::to_string(p));
    }
  }
}

void exchange(int n, int repeat) {
  const int rank = rank_of(MPI_COMM_WORLD);
  const int size = size_of(MPI_COMM_WORLD);
  const auto ints = static_cast<std::size_t>(n * size);
  const std::string what = std::to_string(n) + " ints, repeat " + std::to_string(repeat);
  const Memory send(ints);
  const Memory recv(ints);
  fill(send.data(), n, rank, size, repeat);
  expect(TAPA_Alltoall(send.data(), n, MPI_INT, recv.data(), n, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS,
         what);
  compare(recv.data(), n, rank, size, repeat, what);

  // Rank 0 sends from ordinary memory, the others do not: each block goes its own way.
  std::vector<std::int32_t> ordinary(send.data(), send.data() + ints);
  std::memset(recv.data(), 0, ints * sizeof(std::int32_t));
  std::vector<int> counts(static_cast<std::size_t>(size), n), displs;
  for (int p = 0; p < size; ++p) displs.push_back(p * n);
  const void* const from = rank == 0 ? ordinary.data() : send.data();
  MPI_Request request = MPI_REQUEST_NULL;
  expect(TAPA_Ialltoallv(from, counts.data(), displs.data(), MPI_INT, recv.data(), counts.data(),
                         displs.data(), MPI_INT, MPI_COMM_WORLD, &request) == MPI_SUCCESS,
         what + " v");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  compare(recv.data(), n, rank, size, repeat, what + " v");

  expect(TAPA_Alltoall(MPI_IN_PLACE, 0, MPI_INT, send.data(), n, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS,
         what);
  compare(send.data(), n, rank, size, repeat, what + " in place");
}

void wrong_arguments() {
  void* memory = nullptr;
  expect(TAPA_Alloc(-1, &memory) == MPI_ERR_ARG, "negative size");
  expect_equal(TAPA_Last_error(), "TAPA_Alloc: size is -1, expected 0 or more bytes", "negative size");
  expect(TAPA_Alloc(1, nullptr) == MPI_ERR_ARG, "null address");
  int local = 0;
  expect(TAPA_Free(&local) == MPI_ERR_ARG, "foreign memory");
  expect_equal(TAPA_Last_error(),
               "TAPA_Free: buffer is not memory that TAPA_Alloc gave and that was not freed yet",
               "foreign memory");
  expect(TAPA_Free(nullptr) == MPI_ERR_ARG, "null");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, tapa::errors_return());
  wrong_arguments();
  for (int repeat = 0; repeat < 20; ++repeat) {
    for (const int n : {1, 255, 256, 5000, 100'000}) exchange(n, repeat);
  }
  return finish("registered_test");
}
