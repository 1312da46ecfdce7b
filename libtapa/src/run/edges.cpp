#include "run/edges.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "run/error.hpp"
#include "run/own_mpi.hpp"
#include "run/world.hpp"

namespace tapa {

namespace {

/// In which order the blocks that are received from one rank take those that it has sent, which are sent in
/// the order of the list of neighbours.
enum class Matching : std::uint8_t {
  listed,    ///< that of the list: MPI's rule for graphs
  swapped,   ///< the two of each dimension the other way round: for grids, as what was sent down comes from
             ///< above
  reversed,  ///< from the last one on
};

constexpr int kProbed = 4;
using Blocks = std::array<int, kProbed>;

/// A rank that is its own neighbour four times.
MPI_Comm make_loop(bool grid) {
  MPI_Comm loop = MPI_COMM_NULL;
  if (grid) {
    constexpr std::array<int, kProbed / 2> ones{1, 1};
    check_mpi(PMPI_Cart_create(MPI_COMM_SELF, kProbed / 2, ones.data(), ones.data(), 0, &loop),
              "MPI_Cart_create");
  } else {
    constexpr Blocks self{};
    check_mpi(PMPI_Dist_graph_create_adjacent(MPI_COMM_SELF, kProbed, self.data(), self.data(), kProbed,
                                              self.data(), self.data(), MPI_INFO_NULL, 0, &loop),
              "MPI_Dist_graph_create_adjacent");
  }
  return loop;
}

/// What this MPI does. The standard has one answer for each topology, but Open MPI up to 5.0 has another one
/// in nonblocking calls, and MPICH up to 5.0 in some. A program's calls must not change their meaning when
/// they go another way.
Matching ask_mpi(bool grid, bool nonblocking) {
  const Matching by_standard = grid ? Matching::swapped : Matching::listed;
  MPI_Comm loop = make_loop(grid);
  const Blocks sent{0, 1, 2, 3};
  Blocks received{};
  MPI_Request request = MPI_REQUEST_NULL;
  int code = nonblocking ? TAPA_OWN_MPI(PMPI_Ineighbor_alltoall)(sent.data(), 1, MPI_INT, received.data(), 1,
                                                                 MPI_INT, loop, &request)
                         : TAPA_OWN_MPI(PMPI_Neighbor_alltoall)(sent.data(), 1, MPI_INT, received.data(), 1,
                                                                MPI_INT, loop);
  if (code == MPI_SUCCESS && nonblocking) code = PMPI_Wait(&request, MPI_STATUS_IGNORE);
  PMPI_Comm_free(&loop);
  if (code != MPI_SUCCESS) return by_standard;
  if (received == Blocks{0, 1, 2, 3}) return Matching::listed;
  if (received == Blocks{1, 0, 3, 2}) return Matching::swapped;
  return received == Blocks{3, 2, 1, 0} ? Matching::reversed : by_standard;
}

template <bool grid, bool nonblocking>
Matching known_matching() {
  static const Matching matching = ask_mpi(grid, nonblocking);
  return matching;
}

Matching matching_of(bool grid, bool nonblocking) {
  if (grid) return nonblocking ? known_matching<true, true>() : known_matching<true, false>();
  return nonblocking ? known_matching<false, true>() : known_matching<false, false>();
}

/// A block's place among those that are matched.
int place_of(int block, std::size_t blocks, Matching matching) {
  switch (matching) {
    case Matching::swapped:
      return block ^ 1;
    case Matching::reversed:
      return static_cast<int>(blocks) - 1 - block;
    default:
      return block;
  }
}

/// Finds the peers of a side whose `ranks` are known.
void group(Edges::Side& side) {
  const auto rank_of = [&](int block) { return side.ranks[static_cast<std::size_t>(block)]; };
  side.blocks.resize(side.ranks.size());
  std::iota(side.blocks.begin(), side.blocks.end(), 0);
  std::erase_if(side.blocks, [&](int block) { return rank_of(block) < 0; });
  std::ranges::stable_sort(side.blocks, {}, rank_of);
  for (std::size_t i = 0; i < side.blocks.size(); ++i) {
    const int rank = rank_of(side.blocks[i]);
    if (side.peers.empty() || side.peers.back().rank != rank)
      side.peers.push_back({rank, static_cast<int>(i), 0});
    ++side.peers.back().number;
    side.repeats = side.repeats || side.peers.back().number > 1;
  }
}

void find_in_grid(MPI_Comm comm, Edges& edges) {
  int dimensions = 0;
  check_mpi(PMPI_Cartdim_get(comm, &dimensions), "MPI_Cartdim_get");
  for (int d = 0; d < dimensions; ++d) {
    int below = MPI_PROC_NULL;
    int above = MPI_PROC_NULL;
    check_mpi(PMPI_Cart_shift(comm, d, 1, &below, &above), "MPI_Cart_shift");
    edges.send.ranks.insert(edges.send.ranks.end(), {below, above});
  }
  edges.recv.ranks = edges.send.ranks;
}

void find_in_graph(MPI_Comm comm, Edges& edges) {
  const int rank = rank_in(comm);
  int number = 0;
  check_mpi(PMPI_Graph_neighbors_count(comm, rank, &number), "MPI_Graph_neighbors_count");
  edges.send.ranks.resize(static_cast<std::size_t>(number));
  if (number > 0)
    check_mpi(PMPI_Graph_neighbors(comm, rank, number, edges.send.ranks.data()), "MPI_Graph_neighbors");
  edges.recv.ranks = edges.send.ranks;
}

void find_in_dist_graph(MPI_Comm comm, Edges& edges) {
  int in = 0;
  int out = 0;
  int weighted = 0;
  check_mpi(PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted), "MPI_Dist_graph_neighbors_count");
  edges.recv.ranks.resize(static_cast<std::size_t>(in));
  edges.send.ranks.resize(static_cast<std::size_t>(out));
  std::vector<int> weights(static_cast<std::size_t>(in + out) + 1);  // asked for where there are any
  check_mpi(PMPI_Dist_graph_neighbors(comm, in, edges.recv.ranks.data(), weights.data(), out,
                                      edges.send.ranks.data(), weights.data() + in),
            "MPI_Dist_graph_neighbors");
}

}  // namespace

std::unique_ptr<const Edges> edges_of(MPI_Comm comm, bool nonblocking) {
  int topology = MPI_UNDEFINED;
  check_mpi(PMPI_Topo_test(comm, &topology), "MPI_Topo_test");
  auto edges = std::make_unique<Edges>();
  if (topology == MPI_CART) {
    find_in_grid(comm, *edges);
  } else if (topology == MPI_GRAPH) {
    find_in_graph(comm, *edges);
  } else if (topology == MPI_DIST_GRAPH) {
    find_in_dist_graph(comm, *edges);
  } else {
    return nullptr;
  }
  group(edges->send);
  group(edges->recv);
  if (!edges->recv.repeats) return edges;
  const Matching matching = matching_of(topology == MPI_CART, nonblocking);
  Edges::Side& recv = edges->recv;
  for (const Edges::Peer& peer : recv.peers) {
    const auto first = recv.blocks.begin() + peer.first;
    std::ranges::sort(first, first + peer.number, {},
                      [&](int block) { return place_of(block, recv.ranks.size(), matching); });
  }
  return edges;
}

}  // namespace tapa
