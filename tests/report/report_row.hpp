/// @file
/// A row of the report, for its tests.
#pragma once

#include <cstddef>
#include <string>

#include "report/report.hpp"

namespace tapa {

/// Four calls of MPI_Alltoall in 4 ms.
inline ReportRow row(const std::string& communicator, int rank, int ranks, std::size_t size_class) {
  ReportRow r;
  r.communicator = communicator;
  r.rank = rank;
  r.ranks = ranks;
  r.function = "MPI_Alltoall";
  r.size_class = size_class;
  r.plan = "linear";
  r.calls = 4;
  r.bytes = 4096;
  r.seconds = 0.004;
  return r;
}

}  // namespace tapa
