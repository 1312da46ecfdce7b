// Collectives that are no all-to-alls.
#include <algorithm>

#include "steps.hpp"

namespace random_program {

void collective(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  Random common = common_of(line);
  const int root = below(&common, c.size);
  const std::string& kind = line.word("kind");
  std::uint64_t mine = value_of(line, c, c.rank);
  std::uint64_t sum = 0;
  std::uint64_t before = 0;
  std::vector<std::uint64_t> all(static_cast<std::size_t>(c.size));
  std::vector<std::uint64_t> right(all.size());
  for (int r = 0; r < c.size; ++r) {
    right[static_cast<std::size_t>(r)] = value_of(line, c, r);
    sum += value_of(line, c, r);
    if (r <= c.rank) before += value_of(line, c, r);
  }
  std::uint64_t got = mine;
  std::uint64_t wanted = sum;
  if (kind == "barrier") {
    MPI_Barrier(c.comm);
    wanted = mine;
  } else if (kind == "bcast") {
    MPI_Bcast(&got, 1, MPI_UINT64_T, root, c.comm);
    wanted = right[static_cast<std::size_t>(root)];
  } else if (kind == "allreduce") {
    MPI_Allreduce(&mine, &got, 1, MPI_UINT64_T, MPI_SUM, c.comm);
  } else if (kind == "reduce") {
    MPI_Reduce(&mine, &got, 1, MPI_UINT64_T, MPI_SUM, root, c.comm);
    if (c.rank != root) wanted = got;
  } else if (kind == "scan") {
    MPI_Scan(&mine, &got, 1, MPI_UINT64_T, MPI_SUM, c.comm);
    wanted = before;
  } else if (kind == "gather") {
    MPI_Gather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, root, c.comm);
    expect(line, c.rank != root || all == right, "gathered wrong");
    wanted = got;
  } else if (kind == "scatter") {
    MPI_Scatter(right.data(), 1, MPI_UINT64_T, &got, 1, MPI_UINT64_T, root, c.comm);
    wanted = mine;
  } else if (kind == "allgather") {
    MPI_Allgather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, c.comm);
    expect(line, all == right, "allgathered wrong");
    wanted = got;
  } else if (kind == "reduce_scatter") {
    MPI_Reduce_scatter_block(right.data(), &got, 1, MPI_UINT64_T, MPI_MAX, c.comm);
    wanted = mine;
  } else if (kind == "neighbor") {
    // Of a ring: both neighbors get the same; of two or one ranks both are the same one.
    std::array<std::uint64_t, 2> sent{mine, mine};
    std::array<std::uint64_t, 2> from{};
    MPI_Neighbor_alltoall(sent.data(), 1, MPI_UINT64_T, from.data(), 1, MPI_UINT64_T, c.comm);
    expect(line,
           from[0] == value_of(line, c, (c.rank + c.size - 1) % c.size) &&
               from[1] == value_of(line, c, (c.rank + 1) % c.size),
           "neighbors sent something else");
    wanted = got;
  }
  expect(line, got == wanted, "the collective's result is wrong");
  checksum += wanted;
}

void begin_collective(const Line& line) {
  const Comm& c = object(comms, line.word("comm"));
  if (c.comm == MPI_COMM_NULL) return;
  Pending& p = object(requests, line.word("req"));
  p.active = true;
  p.sent = {value_of(line, c, c.rank)};
  p.received = {0};
  std::uint64_t largest = 0;
  for (int r = 0; r < c.size; ++r) largest = std::max(largest, value_of(line, c, r));
  if (line.word("kind") == "barrier") {
    MPI_Ibarrier(c.comm, &p.request);
  } else if (line.word("kind") == "bcast") {
    largest = value_of(line, c, 0);
    p.received = p.sent;
    MPI_Ibcast(p.received.data(), 1, MPI_UINT64_T, 0, c.comm, &p.request);
  } else {
    MPI_Iallreduce(p.sent.data(), p.received.data(), 1, MPI_UINT64_T, MPI_MAX, c.comm, &p.request);
  }
  if (line.word("kind") == "barrier") return;
  p.finished = [line, &p, largest] {
    expect(line, p.received[0] == largest, "the nonblocking collective's result is wrong");
  };
}

}  // namespace random_program
