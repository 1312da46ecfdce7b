#include "common/agree.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

namespace dit {
namespace {

struct Outcome {
  int status;
  std::array<char, 508> words;
};

std::optional<PluginFailure> failure_of(const std::function<void()>& step) {
  try {
    step();
    return std::nullopt;
  } catch (const PluginFailure& failure) {
    return failure;
  } catch (const std::exception& error) {
    return PluginFailure(DIT_ERROR_INTERNAL, error.what());
  }
}

}  // namespace

void together(MPI_Comm comm, const std::function<void()>& step) {
  const std::optional<PluginFailure> mine = failure_of(step);
  int rank = 0;
  int size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  int first = mine ? rank : size;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  if (first == size) return;
  Outcome outcome{};
  if (first == rank) {
    outcome.status = mine->status();
    std::snprintf(outcome.words.data(), outcome.words.size(), "%s", mine->what());
  }
  check_mpi(MPI_Bcast(&outcome, sizeof outcome, MPI_BYTE, first, comm), "MPI_Bcast");
  if (mine) throw PluginFailure(*mine);
  throw PluginFailure(static_cast<dit_status>(outcome.status),
                      "rank " + std::to_string(first) + ": " + outcome.words.data());
}

}  // namespace dit
