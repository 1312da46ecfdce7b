#include "topology/detect_mpi.hpp"

#include <limits>
#include <stdexcept>
#include <vector>

#include "topology/detect.hpp"
#include "topology/override.hpp"
#include "topology/topology_file.hpp"

namespace tapa {

namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  PMPI_Error_string(code, text, &length);
  throw std::runtime_error(std::string(call) + ": " + text);
}

/// The override is read by rank 0 only, so that all ranks have the same even when their file systems differ.
Topology detect_override(MPI_Comm comm, const std::string& text, int rank, int ranks) {
  std::string result;
  if (rank == 0) {
    try {
      result = "+" + write_topology(override_topology(text, ranks));
    } catch (const std::invalid_argument& error) {
      result = std::string("-") + error.what();
    }
  }
  result = share_text(comm, std::move(result));
  if (result[0] == '-') throw std::invalid_argument(result.substr(1));
  Topology topology = read_topology(std::string_view(result).substr(1), "override");
  topology.sources = {{"override", true, "TAPA_TOPOLOGY=" + text}};
  return topology;
}

}  // namespace

std::string share_text(MPI_Comm comm, std::string text, const std::function<void()>& meet) {
  unsigned long long size = text.size();
  meet();
  check(PMPI_Bcast(&size, 1, MPI_UNSIGNED_LONG_LONG, 0, comm), "MPI_Bcast");
  if (size > static_cast<unsigned long long>(std::numeric_limits<int>::max()))
    throw std::runtime_error("a text of " + std::to_string(size) + " bytes is too large to send");
  text.resize(size);
  meet();
  check(PMPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, 0, comm), "MPI_Bcast");
  return text;
}

std::vector<std::string> gather_records(MPI_Comm comm, const std::string& mine,
                                        const std::function<void()>& meet) {
  int ranks = 0;
  check(PMPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(static_cast<std::size_t>(ranks));
  meet();
  check(PMPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm), "MPI_Allgather");
  std::vector<int> starts;
  long long total = 0;
  for (int l : lengths) {
    starts.push_back(static_cast<int>(total));
    total += l;
    if (total > std::numeric_limits<int>::max())
      throw std::runtime_error("machine records are too large to gather");
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  meet();
  check(PMPI_Allgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR,
                        comm),
        "MPI_Allgatherv");
  std::vector<std::string> records;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    records.push_back(all.substr(static_cast<std::size_t>(starts[r]), static_cast<std::size_t>(lengths[r])));
  }
  return records;
}

void compare_with_mpi(MPI_Comm comm, Topology& topology) {
  MPI_Comm shared = MPI_COMM_NULL;
  int rank = 0;
  check(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check(PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &shared),
        "MPI_Comm_split_type");
  int first = rank;
  const int code = PMPI_Bcast(&first, 1, MPI_INT, 0, shared);
  PMPI_Comm_free(&shared);
  check(code, "MPI_Bcast");
  std::vector<int> group(static_cast<std::size_t>(topology.ranks));
  check(PMPI_Allgather(&first, 1, MPI_INT, group.data(), 1, MPI_INT, comm), "MPI_Allgather");
  const int groups = number_by_first_rank(group);
  bool same = groups == topology.nodes();
  for (int r = 0; same && r < topology.ranks; ++r)
    same = group[static_cast<std::size_t>(r)] == topology.node_of(r);
  const std::string count =
      std::to_string(groups) + (groups == 1 ? " group" : " groups") + " of ranks that share memory";
  topology.sources.push_back(
      {"mpi", same,
       same ? count + ", as the nodes above"
            : count + ", not the " + std::to_string(topology.nodes()) + " nodes above, which are kept"});
}

Topology detect(MPI_Comm comm, const std::string& override_text) {
  int rank = 0;
  int ranks = 0;
  check(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check(PMPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  if (!override_text.empty()) return detect_override(comm, override_text, rank, ranks);
  Topology topology = merge_records(gather_records(comm, local_record()));
  compare_with_mpi(comm, topology);
  return topology;
}

}  // namespace tapa
