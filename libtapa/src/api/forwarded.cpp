#include "api/forwarded.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "api/entry.hpp"
#include "api/forward.hpp"
#include "comm/names.hpp"
#include "comm/report.hpp"
#include "run/error.hpp"
#include "run/log.hpp"
#include "world/process_options.hpp"

namespace tapa {

namespace {

/// What this rank sends, in all.
std::size_t bytes_sent(const Arguments& a, int peers) {
  const Side& side = a.in_place() ? a.recv : a.send;
  std::size_t bytes = 0;
  for (int peer = 0; peer < peers; ++peer) {
    if (side.type_of(peer) == MPI_DATATYPE_NULL) continue;
    bytes += static_cast<std::size_t>(side.count_of(peer)) * type_info(side.type_of(peer)).size;
  }
  return bytes;
}

void keep(const Arguments& arguments, const char* reason, double seconds) {
  const MPI_Comm comm = arguments.comm;
  ReportRow where;
  check_mpi(PMPI_Comm_rank(comm, &where.rank), "MPI_Comm_rank");
  check_mpi(PMPI_Comm_size(comm, &where.ranks), "MPI_Comm_size");
  const std::string name = is_mpis_own(comm) ? "no communicator of this library's" : name_for_report(comm);
  const int peers = peers_of(comm);
  const std::size_t bytes = bytes_sent(arguments, peers);
  Report report;
  report.count(arguments.function, bytes / static_cast<std::size_t>(std::max(peers, 1)), {}, reason, bytes,
               seconds, std::nullopt);
  keep_rows(report.rows(name, where.rank, where.ranks));
}

}  // namespace

ForwardedCall::ForwardedCall(const Arguments& arguments)
    : arguments_(&arguments), wanted_(report_is_wanted()) {
  if (wanted_) began_ = PMPI_Wtime();
}

int ForwardedCall::end(int code) {
  if (!wanted_ || reason_ == nullptr || code != MPI_SUCCESS) return code;
  const double seconds = PMPI_Wtime() - began_;
  try {
    keep(*arguments_, reason_, seconds);
  } catch (const std::exception& e) {  // the call itself was right
    log_warn(std::string("a call is missing in the report: ") + e.what());
  }
  return code;
}

const char* reason_for_blocking(MPI_Comm comm, const CommState* state) {
  if (state != nullptr) return reasons::device;
  if (is_mpis_own(comm)) return reasons::foreign;
  return peers_of(comm) == 1 ? reasons::alone : reasons::not_ready;
}

}  // namespace tapa
