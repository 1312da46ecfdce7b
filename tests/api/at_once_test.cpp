// Nonblocking calls whose blocks have all come are over when they return, and take no memory.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "tapa/tapa.h"

extern "C" void* __libc_malloc(std::size_t bytes);  // NOLINT: glibc's own name

namespace {

std::atomic<unsigned long> allocations{0};
int wrong = 0;

void expect(bool right, const char* what) {
  if (right) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::fprintf(stderr, "rank %d: %s\n", rank, what);
  ++wrong;
}

/// Of one nonblocking call.
struct Cost {
  bool at_once;
  unsigned long allocations;
};
Cost cost_of(const std::function<void(MPI_Request*)>& call) {
  const unsigned long before = allocations;
  MPI_Request request = MPI_REQUEST_NULL;
  call(&request);
  int flag = 0;
  MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  const Cost cost{flag != 0, allocations - before};
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return cost;
}

/// Counts that are 0 but for the rank itself; some calls tell all ranks that this is so.
void test_silent_pairs(int rank, int size) {
  std::vector<int> counts(static_cast<std::size_t>(size));
  std::vector<int> displs(static_cast<std::size_t>(size));
  counts[static_cast<std::size_t>(rank)] = 1;
  int number = 0;
  int sent = 0;
  int received = 0;
  const auto blocking = [&] {
    TAPA_Alltoallv(&sent, counts.data(), displs.data(), MPI_INT, &received, counts.data(), displs.data(),
                   MPI_INT, MPI_COMM_WORLD);
  };
  const auto nonblocking = [&](MPI_Request* request) {
    TAPA_Ialltoallv(&sent, counts.data(), displs.data(), MPI_INT, &received, counts.data(), displs.data(),
                    MPI_INT, MPI_COMM_WORLD, request);
  };
  for (int i = 0; i < 60; ++i) blocking();
  constexpr int kCalls = 64;
  int at_once = 0;
  int free_of_charge = 0;
  for (int i = 0; i < kCalls; ++i) {
    sent = ++number;
    const Cost cost = cost_of(nonblocking);
    expect(received == number, "the block for this rank itself is wrong");
    at_once += cost.at_once ? 1 : 0;
    free_of_charge += cost.allocations == 0 ? 1 : 0;
  }
  // Each sixteenth call asks all ranks whether blocks are still few.
  expect(at_once >= kCalls * 14 / 16, "calls without other ranks wait for others");
  expect(free_of_charge >= kCalls * 14 / 16, "calls that are over at once take memory");
}

/// Who sends to whom, and how much, is another thing in each call; some have gaps.
void test_changing_pairs(int rank, int size) {
  constexpr int kMost = 41;  // of a block, of which longer ones do not lie beside a message's head
  const auto count_of = [](int src, int dst, int call) {
    return (3 * src + 5 * dst + call) % 4 == 0 ? 1 + (call + dst) % 3 * 20 : 0;
  };
  const auto value_of = [](int src, int dst, int call, int i) {
    return (call * 8 + src) * 8 + dst + i * 4096;
  };
  MPI_Datatype gaps = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, 2 * static_cast<MPI_Aint>(sizeof(int)), &gaps);
  MPI_Type_commit(&gaps);
  const auto room = static_cast<std::size_t>(size) * 2 * kMost;
  std::vector<int> sent(room);
  std::vector<int> received(room);
  for (int call = 0; call < 160; ++call) {
    const int step = call % 7 == 6 ? 2 : 1;
    const MPI_Datatype type = step == 2 ? gaps : MPI_INT;
    std::vector<int> send_counts;
    std::vector<int> recv_counts;
    std::vector<int> displs;
    std::vector<int> right(room, -1);
    received.assign(room, -1);
    for (int peer = 0; peer < size; ++peer) {
      send_counts.push_back(count_of(rank, peer, call));
      recv_counts.push_back(count_of(peer, rank, call));
      displs.push_back(peer * kMost);
      const auto at = [&](int i) { return static_cast<std::size_t>((peer * kMost + i) * step); };
      for (int i = 0; i < send_counts.back(); ++i) sent[at(i)] = value_of(rank, peer, call, i);
      for (int i = 0; i < recv_counts.back(); ++i) right[at(i)] = value_of(peer, rank, call, i);
    }
    MPI_Request request = MPI_REQUEST_NULL;
    if (call % 2 == 0)
      TAPA_Alltoallv(sent.data(), send_counts.data(), displs.data(), type, received.data(),
                     recv_counts.data(), displs.data(), type, MPI_COMM_WORLD);
    else
      TAPA_Ialltoallv(sent.data(), send_counts.data(), displs.data(), type, received.data(),
                      recv_counts.data(), displs.data(), type, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(received == right, "what comes, or what lies beside it, is wrong in calls of changing pairs");
  }
  MPI_Type_free(&gaps);
}

/// Calls along edges that are like the last one, or differ from it in buffers, counts or form.
void test_edges(int rank, int size) {
  const int before = (rank + size - 1) % size;
  const int behind = (rank + 1) % size;
  MPI_Comm ring = MPI_COMM_NULL;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &behind, MPI_UNWEIGHTED,
                                 MPI_INFO_NULL, 0, &ring);
  using Buffer = std::array<int, 4>;
  std::array<Buffer, 2> sent{};
  std::array<Buffer, 2> received{};
  for (int call = 0; call < 160; ++call) {
    Buffer& from = sent.at(static_cast<std::size_t>(call / 3 % 2));
    Buffer& to = received.at(static_cast<std::size_t>(call / 9 % 2));
    const int count = 1 + call / 5 % 2;
    const int at = call % 8 == 7 ? 2 : 0;
    from.fill(call * size + rank);
    to.fill(-1);
    Buffer right = to;
    std::fill_n(right.begin() + at, count, call * size + before);
    if (at == 0)
      TAPA_Neighbor_alltoall(from.data(), count, MPI_INT, to.data(), count, MPI_INT, ring);
    else
      TAPA_Neighbor_alltoallv(from.data(), &count, &at, MPI_INT, to.data(), &count, &at, MPI_INT, ring);
    expect(to == right, "what comes along an edge, or what lies beside it, is wrong");
  }
  MPI_Comm_free(&ring);
}

/// Rank 0 sends to all others: who has no edges on a side has no type for it either.
void test_one_way(int rank, int size) {
  const bool sends = rank == 0;
  const int root = 0;
  std::vector<int> others;
  for (int peer = 1; peer < size; ++peer) others.push_back(peer);
  MPI_Comm star = MPI_COMM_NULL;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, sends ? 0 : 1, &root, MPI_UNWEIGHTED, sends ? size - 1 : 0,
                                 others.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &star);
  const MPI_Datatype sendtype = sends ? MPI_INT : MPI_DATATYPE_NULL;
  const MPI_Datatype recvtype = sends ? MPI_DATATYPE_NULL : MPI_INT;
  const std::vector<int> counts(static_cast<std::size_t>(size), 1);
  const std::vector<int> displs(static_cast<std::size_t>(size));
  for (int call = 0; call < 80; ++call) {
    const int sent = call;
    int received = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    if (call % 2 == 0)
      TAPA_Neighbor_alltoallv(&sent, counts.data(), displs.data(), sendtype, &received, counts.data(),
                              displs.data(), recvtype, star);
    else
      TAPA_Ineighbor_alltoallv(&sent, counts.data(), displs.data(), sendtype, &received, counts.data(),
                               displs.data(), recvtype, star, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(received == (sends ? -1 : call), "what comes one way along edges is wrong");
  }
  MPI_Comm_free(&star);
}

/// The rank that comes last finds the blocks of all others.
void test_last(int rank, int size, bool last) {
  std::vector<int> sent(static_cast<std::size_t>(size), rank);
  std::vector<int> received(sent.size());
  const auto uniform = [&](MPI_Request* request) {
    TAPA_Ialltoall(sent.data(), 1, MPI_INT, received.data(), 1, MPI_INT, MPI_COMM_WORLD, request);
  };
  TAPA_Alltoall(sent.data(), 1, MPI_INT, received.data(), 1, MPI_INT, MPI_COMM_WORLD);
  Cost cost{};
  for (int i = 0; i < 3; ++i) {  // the first ones of a kind find out what they are
    received.assign(received.size(), -1);
    MPI_Request request = MPI_REQUEST_NULL;
    if (!last) uniform(&request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (last) cost = cost_of(uniform);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int peer = 0; peer < size; ++peer)
      expect(received[static_cast<std::size_t>(peer)] == peer, "a block of the last rank's call is wrong");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (!last) return;
  expect(cost.at_once, "the call of the last rank waits for others");
  expect(cost.allocations == 0, "the call of the last rank takes memory");
}

}  // namespace

// All that libraries take goes through here.
extern "C" void* malloc(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_silent_pairs(rank, size);
  test_changing_pairs(rank, size);
  test_edges(rank, size);
  test_one_way(rank, size);
  for (int last = 0; last < size; ++last) test_last(rank, size, rank == last);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && wrong == 0) std::puts("ok");
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
